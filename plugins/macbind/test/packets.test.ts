/** MAC bindings on real frames. */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { workloadNode } from '../../../test/workload.ts'

requireRoot(t)

const BOUND = '02:00:00:00:00:0a'
const OTHER = '02:00:00:00:00:0b'

t.test('macbind-04 macbind-05 macbind-07 D51 bound MACs pass, others do not, softly they do', async (t) => {
  const node = await workloadNode(t)
  const a = node.guest('a', { mac: OTHER, addresses: ['192.0.2.1/24'] })
  const b = node.guest('b', { addresses: ['192.0.2.2/24'] })
  await node.guarded(a, b)
  t.ok(a.reaches('192.0.2.2'), 'without a binding')

  await node.ok('POST', '/api/v1/macbind', { mac: BOUND, port_id: a.port })
  t.notOk(a.pings('192.0.2.2'), 'hard: another MAC')
  a.setMac(BOUND)
  t.ok(a.reaches('192.0.2.2'), 'hard: the bound MAC')
  t.ok(b.reaches('192.0.2.1'), 'a port that no binding names is free')

  await node.ok('DELETE', `/api/v1/macbind/${BOUND}`)
  a.setMac(OTHER)
  t.ok(a.reaches('192.0.2.2'), 'enforcement ended')

  await node.ok('POST', '/api/v1/macbind', { mac: BOUND, port_id: a.port, mode: 'soft' })
  t.ok(a.reaches('192.0.2.2'), 'soft: another MAC passes')
  t.match(await node.event('macbind.violation'), { area: 'macbind', data: { mac: OTHER, port_id: a.port } })
  await node.ok('POST', '/api/v1/macbind', { mac: '02:00:00:00:00:0c', mode: 'hard' })
  t.notOk(a.pings('192.0.2.2'), 'hard wins over soft')
  t.notOk(b.pings('192.0.2.1'), 'and names every port')
})

t.test('bindings hold across restart, kill and a port that comes later', async (t) => {
  const node = await workloadNode(t)
  const a = node.guest('a', { mac: OTHER, addresses: ['192.0.2.1/24'], plugged: false })
  const b = node.guest('b', { addresses: ['192.0.2.2/24'] })
  await node.ok('POST', '/api/v1/macbind', { mac: BOUND, port_id: a.port })
  a.plug()
  await node.guarded(a, b)
  t.notOk(a.pings('192.0.2.2'), 'the port was named before it was there')
  await node.agent.kill('SIGKILL')
  t.notOk(a.pings('192.0.2.2'), 'without an agent')
  await node.agent.restart()
  t.notOk(a.pings('192.0.2.2'), 'after a restart')
  await node.ok('DELETE', `/api/v1/macbind/${BOUND}`)
  t.ok(a.reaches('192.0.2.2'))
})

t.test("a binding that names a port holds for an endpoint's MAC", async (t) => {
  const node = await workloadNode(t)
  const [owner, thief, neighbour] = [node.guest('o'), node.guest('t'), node.guest('n')]
  await node.guarded(owner, thief, neighbour)
  const { network } = await node.ok('POST', '/api/v1/networks', { name: 'lan', cidr: '10.0.0.0/24' })
  const at = `/api/v1/networks/${(network as { id: string }).id}`
  const mac = async (ip: string) => {
    const { endpoint } = await node.ok('POST', `${at}/attach`, { ip })
    return (endpoint as { mac: string }).mac
  }
  const [silent, near] = [await mac('10.0.0.1'), await mac('10.0.0.2')]
  neighbour.setMac(near)
  neighbour.ns.run('ip', 'address', 'add', '10.0.0.2/24', 'dev', 'eth0')
  await node.inNetwork(neighbour)
  for (const guest of [owner, thief]) guest.ns.run('ip', 'address', 'add', '10.0.0.1/24', 'dev', 'eth0')

  await node.ok('POST', '/api/v1/macbind', { mac: silent, port_id: owner.port })
  thief.setMac(silent)
  t.notOk(thief.pings('10.0.0.2'), 'its MAC is bound to the port of another')
  t.match(await node.event('macbind.violation'), { data: { mac: silent, port_id: thief.port, dropped: true } })
  // At every instant one of them is against it: it goes on trying by itself.
  await node.ok('POST', '/api/v1/macbind', { mac: BOUND, port_id: thief.port })
  await node.ok('DELETE', `/api/v1/macbind/${silent}`)
  t.notOk(thief.pings('10.0.0.2'), 'the port is bound to another MAC')
  await node.ok('POST', '/api/v1/macbind', { mac: silent, port_id: 'tapaway' })
  await node.ok('DELETE', `/api/v1/macbind/${BOUND}`)
  t.notOk(thief.pings('10.0.0.2'), 'its MAC is bound to a device that is not there')
  thief.setMac(OTHER)
  await node.ok('DELETE', `/api/v1/macbind/${silent}`)
  await node.ok('POST', '/api/v1/macbind', { mac: silent, port_id: owner.port })
  owner.setMac(silent)
  t.ok(owner.reaches('10.0.0.2'), 'it passes by the port that it is bound to')
})
