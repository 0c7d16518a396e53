/** Private networks as guests on one bridge see them. */
import t from 'tap'
import { arrives, frame, tap } from '../../../test/frames.ts'
import { requireRoot } from '../../../test/netns.ts'
import { type Guest, type WorkloadNode, workloadNode } from '../../../test/workload.ts'

requireRoot(t)

interface Endpoint {
  id: string
  ip: string
  mac: string
  state: string
}

async function network(node: WorkloadNode, fields: object): Promise<string> {
  const { network } = await node.ok('POST', '/api/v1/networks', fields)
  return (network as { id: string }).id
}

/** Binds an endpoint and gives the guest its MAC and address. */
async function attach(node: WorkloadNode, id: string, guest: Guest, body: object = {}): Promise<Endpoint> {
  const answer = await node.ok('POST', `/api/v1/networks/${id}/attach`, body)
  const endpoint = answer.endpoint as Endpoint
  guest.setMac(endpoint.mac)
  guest.ns.run('ip', 'address', 'add', `${endpoint.ip}/24`, 'dev', 'eth0')
  return endpoint
}
const detach = (node: WorkloadNode, id: string, { id: endpoint }: Endpoint) =>
  node.ok('POST', `/api/v1/networks/${id}/endpoints/${endpoint}/detach`)

t.test('net-27 net-28 net-30 state-01 state-04 a binding proves MAC and address while it lasts', async (t) => {
  const node = await workloadNode(t)
  const [a, b] = [node.guest('a'), node.guest('b')]
  await node.guarded(a, b)
  const id = await network(node, { name: 'lan', cidr: '10.0.0.0/24' })
  const one = await attach(node, id, a, { ip: '10.0.0.1' })
  const two = await attach(node, id, b, { ip: '10.0.0.2' })
  t.ok(a.reaches(two.ip), 'bound MAC and address pass')
  t.ok(b.reaches(one.ip))

  a.ns.run('ip', 'address', 'add', '10.0.0.77/24', 'dev', 'eth0')
  t.notOk(a.pings(two.ip, '10.0.0.77'), 'another address of the network')
  a.ns.run('ip', 'address', 'add', '192.0.2.77/24', 'dev', 'eth0')
  t.notOk(a.pings(two.ip, '192.0.2.77'), 'an address of no network')
  a.setMac('02:00:00:00:00:77')
  t.notOk(a.pings(two.ip, one.ip), 'another MAC with the bound address')
  a.setMac(two.mac)
  t.notOk(a.pings(two.ip, one.ip), "a neighbour's MAC")
  a.setMac(one.mac)
  t.ok(a.reaches(two.ip, one.ip), 'its own again')

  await detach(node, id, one)
  t.notOk(a.pings(two.ip, one.ip), 'detached: nothing of the network passes')
  t.equal((await node.agent.call('DELETE', `/api/v1/networks/${id}`)).status, 409, 'one endpoint is bound still')
  await detach(node, id, two)
  await node.ok('DELETE', `/api/v1/networks/${id}`)
  await node.open(a, b)
  t.ok(a.reaches(two.ip, one.ip), 'without the network both ports are open')
})

t.test('tenant-10 networks with the same range on one bridge never meet', async (t) => {
  const node = await workloadNode(t)
  const guests = ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => node.guest(name))
  const [a, b, c, d, e, f] = guests as [Guest, Guest, Guest, Guest, Guest, Guest]
  await node.guarded(...guests)
  const tenant = async (name: string) =>
    ((await node.ok('POST', '/api/v1/tenant', { name })).tenant as { id: string }).id
  const red = await network(node, { name: 'red', cidr: '10.0.0.0/24', tenant_id: await tenant('red') })
  const blue = await network(node, { name: 'blue', cidr: '10.0.0.0/24', tenant_id: await tenant('blue') })
  const other = await network(node, { name: 'other', cidr: '10.1.0.0/24' })
  // The same addresses with the same default MACs: only the port tells them apart, so it is declared.
  const place = async (machine: string, id: string, guest: Guest, ip: string) => {
    const answer = await node.ok('POST', '/control/v1/compute/machines', { machine, network: id, ip, port: guest.port })
    guest.setMac((answer.nic as { mac: string }).mac)
    guest.ns.run('ip', 'address', 'add', `${ip}/24`, 'dev', 'eth0')
  }
  await place('a', red, a, '10.0.0.1')
  await place('b', red, b, '10.0.0.2')
  await place('c', blue, c, '10.0.0.1')
  await place('d', blue, d, '10.0.0.2')
  await place('e', other, e, '10.1.0.1')
  await place('f', other, f, '10.1.0.2')
  for (const guest of [a, c]) t.ok(guest.reaches('10.0.0.2'), 'each reaches its own neighbour')
  t.ok(e.reaches('10.1.0.2'))

  const taps = new Map(guests.map((guest) => [guest, tap(t, guest.ns)]))
  const of = (guest: Guest) => {
    const found = taps.get(guest)
    if (found === undefined) throw new Error('no such guest')
    return found
  }
  for (const one of taps.values()) one.seen()
  of(a).send(frame({ from: of(a).mac }, Buffer.from('broadcast of red')))
  t.ok(await arrives(of(a), of(b), {}), 'its own neighbour gets a broadcast')
  for (const guest of [c, d, e, f]) {
    t.notOk(
      of(guest)
        .seen()
        .some((it) => it.includes('broadcast of red')),
      'others see nothing of it',
    )
  }
  of(a).send(frame({ from: of(a).mac, to: of(e).mac }, Buffer.from('unicast of red')))
  t.ok(await arrives(of(a), of(b), {}))
  t.notOk(
    of(e)
      .seen()
      .some((it) => it.includes('unicast of red')),
    'nor of a frame that is for them',
  )
})

t.test('net-31 net-32 state-05 a MAC change moves the binding', async (t) => {
  const node = await workloadNode(t)
  const [a, b] = [node.guest('a'), node.guest('b')]
  await node.guarded(a, b)
  const id = await network(node, { name: 'lan', cidr: '10.0.0.0/24' })
  const one = await attach(node, id, a)
  const two = await attach(node, id, b)
  t.ok(a.reaches(two.ip))
  const mac = '02:00:00:00:00:42'
  await node.ok('PUT', `/api/v1/networks/${id}/endpoints/${one.id}/mac`, { mac })
  t.notOk(a.pings(two.ip), 'the old MAC')
  a.setMac(mac)
  t.ok(a.reaches(two.ip), 'the new MAC')
})

t.test('net-40 net-41 net-46 net-49 the node as gateway, source NAT, and their end', async (t) => {
  const node = await workloadNode(t)
  const outside = node.guest('out', { plugged: false, addresses: ['198.51.100.9/24'] })
  node.ns.run('ip', 'address', 'add', '198.51.100.1/24', 'dev', outside.port)
  node.ns.run('ip', 'route', 'add', 'default', 'via', '198.51.100.9')
  const a = node.guest('a')
  await node.guarded(a)
  const signal = AbortSignal.timeout(10_000)
  while ((await node.agent.call('GET', '/control/v1/config/uplink')).body.value !== outside.port) {
    signal.throwIfAborted()
    await new Promise((wait) => setTimeout(wait, 10))
  }
  const id = await network(node, { name: 'lan', cidr: '10.0.0.0/24', gateway: '10.0.0.254', snat: true })
  await attach(node, id, a)
  a.ns.run('ip', 'route', 'add', 'default', 'via', '10.0.0.254')
  const addresses = () => node.ns.run('ip', '-4', '-br', 'address', 'show', 'br-work')
  t.match(addresses(), /10\.0\.0\.254\/24/)
  t.ok(a.reaches('10.0.0.254'), 'the gateway answers')
  t.ok(a.reaches('198.51.100.9'), 'the world answers, which knows no route back to the network')

  await node.ok('PUT', `/api/v1/networks/${id}/host-gateway`, {})
  t.ok(a.reaches('10.0.0.254'), 'the gateway alone')
  t.notOk(a.pings('198.51.100.9'), 'without source NAT')
  await node.ok('DELETE', `/api/v1/networks/${id}/host-gateway`)
  t.notMatch(addresses(), /10\.0\.0\.254/)
  t.notOk(a.pings('10.0.0.254'), 'nobody is at the gateway')
})

t.test('routed-18 machines with public addresses: beside an endpoint, and alone', async (t) => {
  const node = await workloadNode(t)
  const [a, b] = [node.guest('a'), node.guest('b')]
  await node.guarded(a, b)
  await node.ok('POST', '/api/v1/routed-addresses', { cidr: '93.184.216.0/30' })
  const id = await network(node, { name: 'lan', cidr: '10.0.0.0/24' })
  const both = { machine: 'both', network: id, public_ip: '93.184.216.1', port: a.port }
  const alone = { machine: 'alone', public_ip: 'auto', port: b.port }
  for (const [machine, guest] of [
    [both, a],
    [alone, b],
  ] as const) {
    const { nic } = await node.ok('POST', '/control/v1/compute/machines', machine)
    const { mac, public_ip } = nic as { mac: string; public_ip: string }
    guest.setMac(mac)
    guest.ns.run('ip', 'address', 'add', `${public_ip}/32`, 'dev', 'eth0')
    guest.ns.run('ip', 'route', 'add', '169.254.0.1', 'dev', 'eth0')
    guest.ns.run('ip', 'route', 'add', 'default', 'via', '169.254.0.1')
    t.ok(guest.reaches('169.254.0.1', public_ip), 'the gateway answers')
    t.ok(node.ns.run('ping', '-n', '-q', '-c', '1', '-W', '1', public_ip), 'the node reaches the public address')
  }
  t.ok(a.reaches('93.184.216.0', '93.184.216.1'), 'public addresses reach each other through the node')
  b.ns.run('ip', 'address', 'add', '93.184.216.2/32', 'dev', 'eth0')
  t.notOk(b.pings('169.254.0.1', '93.184.216.2'), 'an address of somebody else is not used')
  await node.ok('DELETE', '/control/v1/compute/machines/alone')
  t.notOk(b.pings('169.254.0.1', '93.184.216.0'), 'detached')
})
