/** What others take away or add is made good, traffic passes again, and what is not the agent's is left as it is. */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { type Guest, type WorkloadNode, workloadNode } from '../../../test/workload.ts'
import { pins, portDump } from './dump.ts'

requireRoot(t)

const P = '/api/v1'
const GATEWAY = '10.0.0.254'

/** All rows; which slot a binding has does not matter. */
const rows = (node: WorkloadNode) => JSON.parse(JSON.stringify(portDump(node)).replace(/,\\"slot\\":\d+/g, ''))

async function scene(t: Test) {
  const node = await workloadNode(t)
  const [a, b] = [node.guest('a'), node.guest('b')]
  await node.guarded(a, b)
  const fields = { name: 'lan', cidr: '10.0.0.0/24', gateway: GATEWAY, host_gateway: true }
  const { network } = await node.ok('POST', `${P}/networks`, fields)
  const { id } = network as { id: string }
  for (const [guest, ip] of [
    [a, '10.0.0.1'],
    [b, '10.0.0.2'],
  ] as const) {
    const machine = { machine: guest.port, network: id, ip, port: guest.port }
    const { nic } = await node.ok('POST', '/control/v1/compute/machines', machine)
    guest.setMac((nic as { mac: string }).mac)
    guest.ns.run('ip', 'address', 'add', `${ip}/24`, 'dev', 'eth0')
  }
  t.ok(a.reaches('10.0.0.2'))
  t.ok(a.reaches(GATEWAY))
  return { node, a, b, index: (guest: Guest) => indexOf(node, guest.port) }
}

const indexOf = ({ ns }: WorkloadNode, name: string): number =>
  (JSON.parse(ns.run('ip', '-j', 'link', 'show', name)) as { ifindex: number }[])[0]?.ifindex ?? 0

/** Deletes every row of a pinned map. */
function empty(node: WorkloadNode, map: string): void {
  const at = ['pinned', join(pins(node), map)]
  const rows: { key: string[] }[] = JSON.parse(node.ns.run('bpftool', '-j', 'map', 'dump', ...at))
  for (const { key } of rows) node.ns.run('bpftool', 'map', 'delete', ...at, 'key', ...key)
}

t.test('rows and links of the programs', async (t) => {
  const { node, a, index } = await scene(t)
  const whole = rows(node)
  const links = join(pins(node), 'links')
  const damages: Record<string, () => void> = {
    'rows of bound MACs': () => empty(node, 'by_mac'),
    'rows of networks': () => empty(node, 'nets'),
    'ranges behind the node': () => empty(node, 'host_ranges'),
    'a program taken off a port': () =>
      void node.ns.run('bpftool', 'link', 'detach', 'pinned', join(links, `workload-${index(a)}-ingress`)),
    'the pins of a port': () => {
      for (const way of ['ingress', 'egress']) node.ns.run('rm', join(links, `workload-${index(a)}-${way}`))
    },
    'the programs of the bridge': () => {
      for (const way of ['ingress', 'egress'])
        node.ns.run('bpftool', 'link', 'detach', 'pinned', join(links, `host-${indexOf(node, 'br-work')}-${way}`))
    },
  }
  for (const [what, damage] of Object.entries(damages)) {
    damage()
    t.equal((await node.ok('POST', '/control/v1/drift', {})).status, 'repaired', what)
    t.same(rows(node), whole)
    t.ok(a.reaches('10.0.0.2'), 'traffic passes')
    t.ok(a.reaches(GATEWAY))
    t.match(await node.ok('POST', '/control/v1/drift', { dry_run: true }), { status: 'clean' })
  }
  const at = ['pinned', join(pins(node), 'net_of_mac')]
  node.ns.run('bpftool', 'map', 'update', ...at, ...'key 2 0 0 0 0 99 0 0 value 7 0 0 0'.split(' '))
  const answer = await node.ok('POST', '/control/v1/drift', {})
  t.match(answer, { status: 'repaired', found: [{ key: /stray/, state: 'foreign' }] }, 'a row of nobody')
  t.same(rows(node), whole)
  t.match(await node.event('agent.drift'), { area: 'core' })
})

t.test('the gate, the gateway, the bridge itself', async (t) => {
  const { node, a, b } = await scene(t)
  node.ns.run('nft', 'add', 'table', 'bridge', 'theirs')
  node.ns.run('ip', 'link', 'add', 'br-theirs', 'type', 'bridge')
  node.ns.run('ip', 'address', 'add', '192.0.2.1/24', 'dev', 'br-theirs')
  const theirs = () => [
    node.ns.run('nft', 'list', 'table', 'bridge', 'theirs'),
    node.ns.run('ip', '-br', 'address', 'show', 'br-theirs'),
  ]
  const foreign = theirs()
  const gate = () => node.ns.run('nft', 'list', 'table', 'bridge', 'stratum')
  const standing = gate()
  const again = async (what: string) => {
    await node.ok('POST', '/control/v1/drift', {})
    t.ok(a.reaches('10.0.0.2'), what)
    t.ok(a.reaches(GATEWAY))
    t.same(theirs(), foreign, 'what is not ours is as it was')
  }
  node.ns.run('nft', 'delete', 'table', 'bridge', 'stratum')
  await again('gate')
  t.equal(gate(), standing, 'the gate stands')
  t.match(await node.event('agent.drift'), { data: { found: [{ key: 'l2/stray/unguarded/gate' }] } })

  node.ns.run('ip', 'address', 'del', `${GATEWAY}/24`, 'dev', 'br-work')
  await again('gateway')

  node.ns.run('ip', 'link', 'del', 'br-work')
  await node.ok('POST', '/control/v1/drift', {})
  for (const guest of [a, b]) guest.plug()
  await node.guarded(a, b)
  await again('br-work, when the ports are put back')
  t.equal((await node.ok('POST', '/control/v1/drift', { dry_run: true })).status, 'clean')
})
