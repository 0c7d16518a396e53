/** Which answers of backends behind br-work a default deny lets through, with br_netfilter and without. */
import t from 'tap'
import { machine } from '../../../dataplane/bpf/lb/test/machine.ts'
import { requireRoot } from '../../../test/netns.ts'
import { guest } from '../../../test/workload.ts'
import { lab, VIP, VIP6 } from './lab.ts'
import { balanced, lane } from './lane.ts'

requireRoot(t)

const it = await lab(t, 1)
const { node, ok, serve, ask } = it
const CIDR = '10.8.0.0/24'

function hooks(on: boolean): boolean {
  const value = on ? 1 : 0
  const names = ['iptables', 'ip6tables', 'arptables'].map((name) => `net.bridge.bridge-nf-call-${name}`)
  node.run('sysctl', '-qew', ...names.map((name) => `${name}=${value}`))
  return node.run('sysctl', '-e', '-n', ...names).trim() !== ''
}

/** A machine of a private network, which serves as `lan` on port 8080. */
async function inNetwork(): Promise<void> {
  const body = { name: 'lan', cidr: CIDR, gateway: '10.8.0.1', host_gateway: true }
  const { network } = (await ok('POST', '/api/v1/networks', body)) as { network: { id: string } }
  const there = guest(t, node, 'lan', { addresses: ['10.8.0.2/24'], gateway: '10.8.0.1', mac: '02:00:00:00:08:02' })
  const bound = { ip: '10.8.0.2', mac: '02:00:00:00:08:02', port: there.port }
  await ok('POST', `/api/v1/networks/${network.id}/attach`, bound)
  if (!there.reaches('10.8.0.1')) throw new Error('10.8.0.1 is not reached')
  await machine(there.ns).tell('listen', { protocol: 'tcp', port: 8080, name: 'lan' })
}

balanced('D71 a default deny and answers of backends behind br-work', async (t) => {
  await inNetwork()
  await serve(1, { id: 'open4' })
  await serve(1, { id: 'open6', frontend_ip: VIP6 }, () => ({ ip: 'fd09::11' }))
  await serve(0, { id: 'lan', frontend_port: 81 })
  await ok('POST', '/api/v1/lb/lan/backends', { id: 'lan', ip: '10.8.0.2', port: 8080 })
  await ok('PUT', '/api/v1/rules/default', { default_action: 'deny' })
  const accept = (fields: object) => ok('POST', '/api/v1/rules', { action: 'accept', protocol: 'tcp', ...fields })
  for (const dest_ip of [VIP, VIP6]) await accept({ dest_ip })
  const served = async () => [
    ...(await ask(1, { timeoutMs: 1500 })),
    ...(await ask(1, { timeoutMs: 1500, address: VIP6 })),
    ...(await ask(1, { timeoutMs: 1500, port: 81 })),
  ]
  const detail = async () => JSON.stringify(await ok('GET', '/control/v1/services'))
  const all = ['b1', 'b1', 'lan']
  hooks(false)
  t.same(await served(), all, 'frames of bridges meet no IP hook')
  t.notMatch(await detail(), /answers of backends/)
  if (!hooks(true)) return
  if (lane === 'nft') return void t.same(await served(), all, 'conntrack knows the connection')
  t.same(await served(), ['timeout', 'timeout', 'lan'], 'what a private network sends never meets the IP hooks')
  t.match(await detail(), /a default deny drops answers of backends at open ports of br-work/)
  for (const source_ip of ['10.9.0.11', 'fd09::11']) await accept({ source_ip, source_port: 8080 })
  t.same(await served(), all, 'a rule that accepts the answers lets them through')
})
