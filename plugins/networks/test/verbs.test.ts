/** The commands of networks and routed addresses against the real routes. */
import { join } from 'node:path'
import t from 'tap'
import { defineArea } from '../../../core/area.ts'
import { ctlFor } from '../../../core/cli/test/control.ts'
import { listenControl } from '../../../core/transport/listener.ts'
import { type BuildAgentOptions, scratch } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { verbs } from '../verbs.ts'
import { networks } from './area.ts'

async function node(t: Scope, options: BuildAgentOptions = {}) {
  const area = await networks(t, { config: { uplink: 'away0' }, ...options })
  const listener = await listenControl(area.agent.app.routing.bind(area.agent.app), join(scratch(t), 'control.sock'))
  t.teardown(() => listener.close(0))
  const ctl = ctlFor(verbs, listener.where)
  return { ...area, ctl, json: async (line: string) => JSON.parse((await ctl(`${line} --json`)).out) }
}

t.test('networks', async (t) => {
  const { ctl, json } = await node(t)
  t.match(await ctl('networks list'), { code: 0, out: 'no networks\n' })
  const all = '--gateway 10.0.0.1 --vlan 7 --tenant-id acme --host-gateway --snat'
  const { network } = await json(`networks create lab 10.0.0.0/29 ${all}`)
  t.match(network, { name: 'lab', vlan: 7, tenant_id: 'acme', host_gateway: { enabled: true, snat: true } })
  t.match(await ctl('networks create other 10.1.0.0/29'), { code: 0, out: /^network other created: net-\w{12}\n$/ })
  t.match(await ctl('networks list'), {
    out: /^ID .*\nnet-\w+ +lab +10\.0\.0\.0\/29 +10\.0\.0\.1 +7 +acme +on, snat\nnet-\w+ +other +10\.1\.0\.0\/29 +- +- +- +off\n$/,
  })
  t.match(await ctl(`networks show ${network.id}`), { out: /name +lab\n(.*\n)*host_gateway +on, snat\n$/ })
  t.same(await json(`networks show ${network.id}`), { network })
  t.match(await ctl(`networks host-gateway ${network.id}`), { out: 'network lab: host gateway on\n' })
  t.match(await ctl(`networks host-gateway ${network.id} --snat`), { out: 'network lab: host gateway on, snat\n' })
  t.match(await ctl(`networks host-gateway ${network.id} --off`), { out: 'network lab: host gateway off\n' })
  t.match(await ctl(`networks host-gateway ${network.id} --dhcp`), { code: 1, err: /DHCP is not available/ })
  t.match(await ctl(`networks delete ${network.id}`), { code: 0, out: `network ${network.id} deleted\n` })
  t.match(await ctl(`networks delete ${network.id}`), { code: 1, err: /not found/ })
  t.match(await ctl('networks create x'), { code: 2 })
  t.match(await ctl('networks create x 10.0.0.0/8'), { code: 1, err: /must be from/ })
})

t.test('what another area has to say of a new network stands below it, while that area is on', async (t) => {
  const beside = defineArea(import.meta.url, {
    name: 'beside',
    prefixes: ['/beside'],
    needs: ['networks'],
    warnings: { networks: (_db, id) => [`mind ${id}`] },
    routes: () => {},
  })
  const { ctl, json, agent } = await node(t, { extraAreas: [beside] })
  t.match(await ctl('networks create a 10.0.0.0/29'), { out: /^network a created: (net-\w{12})\nmind \1\n$/ })
  agent.states.turnOff('beside', 'no more')
  t.notOk('warnings' in (await json('networks create b 10.1.0.0/29')))
})

t.test('endpoints', async (t) => {
  const { ctl, json, create } = await node(t)
  const { id } = await create({ cidr: '10.0.0.0/30' })
  t.match(await ctl(`networks attach ${id} --ip 10.0.0.2`), {
    out: '10.0.0.2 is bound to 02:ce:0a:00:00:02: ep-00010a000002\n',
  })
  t.match(await json(`networks attach ${id} --mac 02:00:00:00:00:01`), { endpoint: { ip: '10.0.0.1' } })
  t.match(await ctl(`networks attach ${id}`), { code: 1, err: /no free address/ })
  t.match(await ctl(`networks endpoints ${id}`), {
    out: /\nep-00010a000001 +10\.0\.0\.1 +02:00:00:00:00:01 +bound +2030/,
  })
  t.match(await ctl(`networks endpoints ${id} --mac 02-CE-0A-00-00-02`), { out: /^ID.*\nep-00010a000002 [^\n]*\n$/ })
  t.match(await ctl(`networks endpoints ${id} --mac 02:00:00:00:00:99`), { code: 0, out: 'no endpoints\n' })
  t.match(await ctl(`networks mac ${id} ep-00010a000001 02:00:00:00:00:09`), {
    out: '10.0.0.1 is bound to 02:00:00:00:00:09\n',
  })
  t.match(await ctl(`networks port ${id} ep-00010a000001 tap7`), {
    out: '10.0.0.1 is bound to 02:00:00:00:00:09 on tap7\n',
  })
  t.match(await ctl(`networks endpoints ${id} --mac 02:00:00:00:00:09`), { out: / tap7\n$/ })
  t.match(await ctl(`networks mac ${id} ep-00010a000001 02:00:00:00:00:08 --port tap8`), { out: / on tap8\n$/ })
  t.match(await ctl(`networks port ${id} ep-00010a000001`), { out: '10.0.0.1 is bound to 02:00:00:00:00:08\n' })
  t.match(await ctl(`networks detach ${id} ep-00010a000001`), { code: 0, out: '10.0.0.1 is free\n' })
  t.match(await ctl(`networks detach ${id} ep-1`), { code: 1, err: /endpoint ep-1 not found/ })
})

t.test('routed', async (t) => {
  const { ctl, json, attachNic } = await node(t)
  t.match(await ctl('routed list'), { code: 0, out: 'no routed ranges\n' })
  const added = await ctl(['routed', 'add', '8.8.4.0/30', '--tenant-id', 'acme', '--description', 'rack 4'])
  t.match(added, { code: 0, out: /^range 8\.8\.4\.0\/30 added: rng-\w{12}\n$/ })
  t.match(await ctl('routed list'), { out: /^ID .*\nrng-\w+ +8\.8\.4\.0\/30 +acme +0 +4 +rack 4\n$/ })
  await attachNic('vm', { public_ip: '8.8.4.1' })
  t.match(await ctl('routed list'), { out: /\n\nADDRESS +USED BY +MAC\n8\.8\.4\.1 +vm +02:ce:08:08:04:01\n$/ })
  t.match(await json('routed list'), { gateway: '169.254.0.1', ranges: [{ used: 1 }] })
  t.match(await ctl('routed delete 8.8.4.0/30'), { code: 1, err: /machine vm has 8\.8\.4\.1/ })
  await json('routed add 8.8.8.8')
  t.match(await ctl('routed delete 8.8.8.8'), { code: 0, out: 'range 8.8.8.8/32 deleted\n' })
})
