/** Bridges and ports on the real kernel. */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { workloadNode } from '../../../test/workload.ts'

requireRoot(t)

const bridges = (text: string): string[] =>
  (JSON.parse(text) as { ifname: string }[]).map(({ ifname }) => ifname).sort()

t.test('bridge-02 bridge-03 bridge-05 bridge-09 bridges are in the kernel, survive a restart and go', async (t) => {
  const node = await workloadNode(t)
  const kernel = () => bridges(node.ns.run('ip', '-j', 'link', 'show', 'type', 'bridge'))
  t.same(kernel(), ['br-mgmt', 'br-work'])
  await node.ok('POST', '/api/v1/bridges', { name: 'br-lab' })
  t.same(kernel(), ['br-lab', 'br-mgmt', 'br-work'])
  await node.agent.kill('SIGKILL')
  node.ns.run('ip', 'link', 'del', 'br-lab')
  await node.agent.restart()
  t.same(kernel(), ['br-lab', 'br-mgmt', 'br-work'], 'made again')
  await node.ok('DELETE', '/api/v1/bridges/br-lab')
  t.same(kernel(), ['br-mgmt', 'br-work'])
})

t.test('bridge-01 bridge-06 bridge-08 a device goes in and out, and what others put in is left alone', async (t) => {
  const node = await workloadNode(t)
  const [ours, theirs] = [node.guest('a', { plugged: false }), node.guest('b')]
  const master = (port: string) => JSON.parse(node.ns.run('ip', '-j', 'link', 'show', port))[0].master
  await node.ok('POST', '/api/v1/bridges/br-work/ports', { interface: ours.port })
  t.equal(master(ours.port), 'br-work')
  const { bridges } = await node.ok('GET', '/api/v1/bridges')
  t.match(bridges, [
    { name: 'br-mgmt', interfaces: [] },
    { name: 'br-work', interfaces: [ours.port, theirs.port] },
  ])
  await node.ok('DELETE', `/api/v1/bridges/br-work/ports/${ours.port}`)
  t.equal(master(ours.port), undefined)
  t.equal(master(theirs.port), 'br-work')
  const foreign = node.ns.run('ip', 'link', 'add', 'br-other', 'type', 'bridge')
  t.equal(foreign, '')
  const taken = await node.agent.call('POST', '/api/v1/bridges', { name: 'br-other' })
  t.equal(taken.status, 409, 'a bridge of somebody else is not taken over')
  t.match(taken.body.error, /br-other/)
})

t.test('ports are guarded the moment they join, and open ports talk', async (t) => {
  const node = await workloadNode(t)
  const a = node.guest('a', { addresses: ['192.0.2.1/24'] })
  const b = node.guest('b', { addresses: ['192.0.2.2/24'] })
  await node.guarded(a, b)
  t.ok(a.reaches('192.0.2.2'), 'between open ports')
  await node.agent.kill('SIGKILL')
  t.ok(a.reaches('192.0.2.2'), 'without an agent')
  await node.agent.restart()
  await node.guarded(a, b)
  t.ok(b.reaches('192.0.2.1'))
  a.unplug()
  await node.unguarded(a)
  a.plug()
  await node.guarded(a, b)
  t.ok(b.reaches('192.0.2.1'), 'after it left and came back')
})

t.test('bridge_netfilter is left alone unless the operator says so', async (t) => {
  const node = await workloadNode(t)
  const value = () => node.ns.run('sysctl', '-n', 'net.bridge.bridge-nf-call-iptables').trim()
  const before = value()
  if (before !== '1') return t.pass('this kernel does not hand bridged frames to the IP hooks')
  t.match((await node.ok('GET', '/api/v1/status')).acceleration, { detail: /bridge_netfilter/ })
  await node.ok('PUT', '/control/v1/config/bridge_netfilter', { value: 'off' })
  t.equal(value(), '0')
  t.notMatch((await node.ok('GET', '/api/v1/status')).acceleration, { detail: /bridge_netfilter/ })
  return undefined
})
