/** Whose an endpoint is while no agent runs, after the next has started, and after an upgrade. */
import { once } from 'node:events'
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Database } from '../../../core/state/sqlite.ts'
import { openMap } from '../../../dataplane/bpf/map.ts'
import * as layout from '../../../dataplane/bpf/port/layout.ts'
import { type Netns, requireRoot } from '../../../test/netns.ts'
import { type WorkloadNode, workloadNode } from '../../../test/workload.ts'
import { pins, portDump } from './dump.ts'
import { portedMachine } from './machines-on-ports.ts'
import { HOME, kept, NEIGHBOUR, P, place, SETTINGS, THIEF } from './theft.ts'

requireRoot(t)

/** In this order: in which settings whoever it is about is the endpoint. */
const TABLE: readonly [what: string, ...settings: string[]][] = [
  ['the owner, without an agent', 'roam', 'sticky', 'named port', 'hard binding'],
  ['the thief beside the owner, without an agent'],
  ['the thief while the owner is off, without an agent'],
  ['the thief while the owner is off, with the next agent', 'roam'],
  ['the owner, on again beside the thief', 'sticky', 'named port', 'hard binding'],
  ['the owner, after a restart', 'sticky', 'named port', 'hard binding'],
  ['the thief, after a restart', 'roam'],
]

t.test('whose an endpoint is when the agent is killed and started again', async (t) => {
  const here = await place(t)
  const { node, owner, thief, at } = here
  for (const [n, setting] of SETTINGS.entries()) {
    await here.set(setting.ports)
    const endpoint = await here.attach(setting, `10.0.0.${10 + n}`)
    const { mac, ip } = endpoint
    const rows = TABLE.values()
    const is = (machine: typeof owner) => {
      const [what = '', ...settings] = rows.next().value ?? []
      const shall = settings.includes(setting.name)
      t.equal(shall ? machine.reaches(NEIGHBOUR) : machine.pings(NEIGHBOUR), shall, `${setting.name}: ${what}`)
    }
    await owner.on(HOME, mac, ip)
    owner.pings(NEIGHBOUR)
    if (setting.ports === 'sticky') await kept(here, endpoint, HOME)
    await thief.on(THIEF, mac, ip)
    await node.agent.kill('SIGKILL')
    is(owner)
    is(thief)
    owner.off()
    is(thief)
    await node.agent.restart()
    is(thief)
    await owner.on(HOME, mac, ip)
    is(owner)
    await node.agent.restart()
    is(owner)
    is(thief)
    owner.off()
    thief.off()
    await node.ok('POST', `${at}/endpoints/${endpoint.id}/detach`)
  }
})

t.test('sticky: a first device that was taken while no agent ran is kept by the next', async (t) => {
  const here = await place(t)
  const { node, owner, thief } = here
  await here.set('sticky')
  const endpoint = await here.attach({ name: 'sticky', ports: 'sticky' }, '10.0.0.10')
  const { mac, ip } = endpoint
  await owner.on(HOME, '02:00:00:00:00:99', ip)
  await node.agent.kill('SIGKILL')
  owner.ns.run('ip', 'link', 'set', 'eth0', 'address', mac)
  t.ok(owner.reaches(NEIGHBOUR))
  await node.agent.restart()
  await kept(here, endpoint, HOME)
  owner.off()
  await thief.on(THIEF, mac, ip)
  t.notOk(thief.pings(NEIGHBOUR))
  await owner.on(HOME, mac, ip)
  t.ok(owner.reaches(NEIGHBOUR))
})

/** What an agent that knew nothing of claims and kept ports has left behind. */
function makeOld(node: WorkloadNode): void {
  const db = new Database(join(node.agent.stateDir, 'stratum.db'))
  for (const index of ['networks_endpoints_kept', 'networks_endpoints_unnamed', 'networks_claims_kept'])
    db.exec(`drop index ${index}`)
  for (const table of ['networks_endpoints', 'networks_claims']) db.exec(`alter table ${table} drop column kept_port`)
  db.exec('delete from __migrations_networks where created_at = (select max(created_at) from __migrations_networks)')
  db.close()
  const rows = openMap(join(pins(node), 'by_mac'), layout.endpointKey, layout.endpointRow)
  for (const [key, row] of [...rows.entries()]) rows.set(key, { ...row, claims: 0 })
  rows.close()
}

const linksOf = (node: WorkloadNode): string[] => {
  const dir = join(pins(node), 'links')
  return readdirSync(dir).map((name) => `${name} ${statSync(join(dir, name)).ino}`)
}

/** Pings `address` a hundred times a second; what it returns ends that and tells how many answers are missing. */
function pinging(ns: Netns, address: string): () => Promise<number> {
  const child = ns.spawn('ping', ['-n', '-q', '-i', '0.01', address])
  let said = ''
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  return async () => {
    const gone = once(child, 'close')
    child.kill('SIGINT')
    await gone
    const [, sent = '0', got = '-1'] = /(\d+) packets transmitted, (\d+) received/.exec(said) ?? []
    return Number(sent) < 10 ? -1 : Number(sent) - Number(got)
  }
}

t.test('an upgrade of a node without ports leaves endpoints and links as they are', async (t) => {
  const node = await workloadNode(t)
  const { network } = await node.ok('POST', `${P}/networks`, { name: 'lan', cidr: '10.0.0.0/24' })
  const { id } = network as { id: string }
  const [a, b] = [portedMachine(t, node, 'a'), portedMachine(t, node, 'b')]
  const wanted = [
    { machine: 'a', network: id, ip: '10.0.0.1' },
    { machine: 'b', network: id, ip: '10.0.0.2', port: 'tapb' },
  ]
  const [one, two] = await Promise.all(
    wanted.map(async (body) => (await node.ok('POST', '/control/v1/compute/machines', body)).nic as { mac: string }),
  )
  await a.on('tapa', one?.mac ?? '', '10.0.0.1')
  await b.on('tapb', two?.mac ?? '', '10.0.0.2')
  t.ok(a.reaches('10.0.0.2'))
  const [dump, links] = [portDump(node), linksOf(node)]
  const missing = pinging(a.ns, '10.0.0.2')
  await node.agent.kill('SIGTERM')
  makeOld(node)
  t.notSame(portDump(node), dump, 'the named device was known by its row alone')
  await node.agent.restart()
  t.same(portDump(node), dump)
  t.same(linksOf(node), links, 'no program was attached anew')
  t.equal(await missing(), 0, 'no packet was lost')
  const { endpoints } = await node.ok('GET', `${P}/networks/${id}/endpoints`)
  t.match(endpoints, [
    { ip: '10.0.0.1', state: 'bound', port: undefined },
    { ip: '10.0.0.2', state: 'bound', port: 'tapb' },
  ])
  t.same((await node.ok('POST', '/control/v1/drift', { dry_run: true })).status, 'clean')
})
