/** What machines on br-work reach of the node itself, whoever judges by the rules. */
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { type Netns, netns, requireRoot, veth } from '../../../test/netns.ts'
import { type Guest, type WorkloadNode, workloadNode } from '../../../test/workload.ts'
import { whyNotServices } from '../guests.ts'

requireRoot(t)
const UPLINK = '192.168.7.1'

/** Answers whatever is said on these ports, on every address. */
const SERVER = `
const ports = process.argv.slice(1).map(Number)
const udp = ports.map((port) => new Promise((r) => { const s = require('node:dgram').createSocket('udp4').bind(port, r); s.on('message', (m, f) => s.send(m, f.port, f.address)) }))
const tcp = ports.map((port) => new Promise((r) => require('node:net').createServer((c) => c.on('error', () => {}).pipe(c)).listen(port, '0.0.0.0', r)))
Promise.all([...udp, ...tcp]).then(() => console.log('ready'))`

/** Prints which targets, PROTO/ADDRESS/PORT, answer. What it says is a query of DNS (RFC 1035 section 4.1). */
const CLIENT = `
const ms = 700
const query = Buffer.from('000101000001000000000000' + '0000020001', 'hex')
const asked = process.argv.slice(1).map((target) => new Promise((done) => {
  const [proto, host, port] = target.split('/')
  const timer = setTimeout(() => done(''), ms)
  const yes = () => { clearTimeout(timer); done(target) }
  if (proto === 'tcp') require('node:net').connect(+port, host, yes).on('error', () => {})
  else require('node:dgram').createSocket('udp4').on('message', yes).on('error', () => {}).send(query, +port, host)
}))
Promise.all(asked).then((all) => { console.log(JSON.stringify(all.filter(Boolean))); process.exit() })`

const reached = (ns: Netns, targets: readonly string[]): string[] =>
  JSON.parse(ns.run(process.execPath, '-e', CLIENT, ...targets))

async function machine(node: WorkloadNode, number: number): Promise<Guest> {
  const { network } = await node.ok('POST', '/api/v1/networks', {
    ...{ name: `net${number}`, cidr: `10.${number}.0.0/24`, gateway: `10.${number}.0.1`, host_gateway: true },
  })
  const mac = `02:00:00:00:00:0${number}`
  const guest = node.guest(`m${number}`, { mac, addresses: [`10.${number}.0.2/24`], gateway: `10.${number}.0.1` })
  await node.ok('POST', '/control/v1/compute/machines', {
    ...{ machine: guest.port, network: (network as { id: string }).id, ip: `10.${number}.0.2`, port: guest.port, mac },
  })
  await node.inNetwork(guest)
  return guest
}

async function works(t: Test, classifier: 'on' | 'off', disabled_areas = '') {
  const config = { uplink: 'wan0', disabled_areas }
  const node = await workloadNode(t, { config, env: { STRATUM_CLASSIFIER: classifier } })
  const outside = netns(t, 'outside')
  veth(t, { ns: node.ns, name: 'wan0', addr: `${UPLINK}/24` }, { ns: outside, name: 'eth0', addr: '192.168.7.2/24' })
  const server = node.ns.spawn(process.execPath, ['-e', SERVER, '123', '179'])
  if (server.stdout === null) throw new TypeError('no stdout')
  await once(server.stdout, 'data')
  const [a, b] = [await machine(node, 1), await machine(node, 2)]
  return { node, outside, a, b, set: (value: string) => set(node, 'guest_services', value) }
}

const set = (node: WorkloadNode, key: string, value: string) => node.ok('PUT', `/control/v1/config/${key}`, { value })

for (const classifier of ['on', 'off'] as const) {
  t.test(`a machine reaches of the node what it offers, at its own gateway (classifier ${classifier})`, async (t) => {
    const { node, outside, a, b, set: services } = await works(t, classifier)
    const offered = ['tcp/10.1.0.1/53', 'udp/10.1.0.1/53']
    const closed = ['10.1.0.1', '10.2.0.1', UPLINK].flatMap((host) => [
      ...[`tcp/${host}/179`, `udp/${host}/123`, `tcp/${host}/7070`, `tcp/${host}/7071`, `tcp/${host}/7072`],
    ])
    const others = ['tcp/10.2.0.1/53', 'udp/10.2.0.1/53']
    t.same(reached(a.ns, [...offered, ...closed, ...others]), offered, 'DNS at its own gateway')
    t.ok(a.reaches('10.1.0.1'), 'and an echo')
    t.notOk(a.pings('10.2.0.1'), 'none of the gateway of another network')
    t.same(reached(outside, [`tcp/${UPLINK}/179`, `tcp/${UPLINK}/7070`]).length, 2, 'others reach the node as before')
    t.ok(node.ns.run('ping', '-c', '1', '-W', '2', '10.1.0.2'), 'the node reaches the machine')

    await services('tcp/179, udp/123')
    const more = ['tcp/10.1.0.1/179', 'udp/10.1.0.1/123', `tcp/${UPLINK}/179`]
    t.same(reached(a.ns, [...more, 'tcp/10.1.0.1/7070', 'tcp/10.2.0.1/179']), more, 'what the operator names')
    await services('all')
    t.same(reached(a.ns, ['tcp/10.1.0.1/7070']).length, 1, 'all')
    await services('')
    t.same(reached(a.ns, ['tcp/10.1.0.1/7070']), [], 'and none again')
    await set(node, 'api_allowed_ips', '10.1.0.0/24, 192.168.7.0/24')
    const api = ['tcp/10.1.0.1/7070']
    t.same(reached(a.ns, api), api, 'the API, from addresses on its list')
    t.same(reached(b.ns, ['tcp/10.2.0.1/7070']), [], 'and from no other')
  })
}

t.test('a node that starts without the firewall is as closed to machines', async (t) => {
  const { node, outside, a, set: services } = await works(t, 'on', 'firewall,bgp,cluster,vxlan')
  t.match((await node.agent.call('GET', '/api/v1/rules')).status, 503, 'the area is off')
  const closed = ['10.1.0.1', UPLINK].flatMap((host) => [`tcp/${host}/179`, `udp/${host}/123`, `tcp/${host}/7070`])
  t.same(reached(a.ns, ['tcp/10.1.0.1/53', ...closed]), ['tcp/10.1.0.1/53'])
  t.same(reached(outside, [`tcp/${UPLINK}/179`]).length, 1, 'others reach the node')
  await services('tcp/179')
  t.same(reached(a.ns, ['tcp/10.1.0.1/179', 'tcp/10.1.0.1/7070']), ['tcp/10.1.0.1/179'], 'what the operator names')
})

t.test('a machine with a routed address reaches its gateway, and no service of the node', async (t) => {
  const { node } = await works(t, 'on')
  await node.ok('POST', '/api/v1/routed-addresses', { cidr: '93.184.216.0/30' })
  const guest = node.guest('r')
  const { nic } = await node.ok('POST', '/control/v1/compute/machines', {
    ...{ machine: 'r', public_ip: 'auto', port: guest.port },
  })
  const { mac, public_ip } = nic as { mac: string; public_ip: string }
  guest.setMac(mac)
  for (const route of [
    ['169.254.0.1', 'dev', 'eth0'],
    ['default', 'via', '169.254.0.1', 'src', public_ip],
  ]) {
    if (route[0] !== 'default') guest.ns.run('ip', 'address', 'add', `${public_ip}/32`, 'dev', 'eth0')
    guest.ns.run('ip', 'route', 'add', ...route)
  }
  t.ok(guest.reaches('169.254.0.1', public_ip))
  const hosts = ['169.254.0.1', UPLINK, '10.1.0.1']
  t.same(
    reached(
      guest.ns,
      hosts.flatMap((host) => [`tcp/${host}/179`, `tcp/${host}/7070`]),
    ),
    [],
  )
  t.notOk(guest.pings('10.1.0.1'), 'nor the gateway of a private network')
})

t.test('guest_services takes ports and all, and nothing else', async (t) => {
  for (const text of ['tcp', 'tcp/0', 'tcp/65536', 'icmp/1', 'tcp/22;accept', 'tcp/22 accept', 'All'])
    t.match(whyNotServices([text]), /must be all/, text)
  for (const list of [['tcp/65535'], ['udp/1', 'tcp/22'], ['all'], []]) t.equal(whyNotServices(list), undefined)
})
