/** What a rule matches, by real packets: through the node and to it, IPv4 and IPv6. */
import t from 'tap'
import { veth } from '../../../test/netns.ts'
import { CLIENT, lab, OTHER, ping, ROUTER, SERVER, sees, tcp, udp } from './lab.ts'
import { judged, requireLane } from './lane.ts'

requireLane(t)
const PORTS = [1000, 1001, 1002, 1003]
const { client, other, server, node, router, rule, put, reset } = await lab(t)
for (const machine of [server, node]) for (const proto of ['udp', 'tcp'] as const) await machine.serve(proto, PORTS)

judged('control: without a rule everything passes', async (t) => {
  for (const kind of [udp, tcp]) {
    const pass = [SERVER.v4, SERVER.v6, ROUTER.v4, ROUTER.v6].flatMap((host) => PORTS.map((port) => kind(host, port)))
    await sees(t, client, { pass }, 'all ports')
  }
  await sees(t, client, { pass: [ping(SERVER.v4), ping(SERVER.v6), ping(ROUTER.v4), ping(ROUTER.v6)] }, 'ping')
})

judged('fw-16 dest_port_max is inclusive at both ends', async (t) => {
  await rule({ action: 'drop', dest_port: 1001, dest_port_max: 1002 })
  for (const host of [SERVER.v4, SERVER.v6, ROUTER.v4]) {
    for (const kind of [udp, tcp]) {
      const pass = [kind(host, 1000), kind(host, 1003)]
      await sees(t, client, { pass, drop: [kind(host, 1001), kind(host, 1002)] }, 'drop from 1001 to 1002')
    }
  }
  await reset()
  await put('/api/v1/rules/default', { default_action: 'deny' })
  await rule({ action: 'accept', protocol: 'tcp', dest_port: 1001, dest_port_max: 1002 })
  const [below, low, high, above] = PORTS.map((port) => tcp(SERVER.v4, port))
  if (!below || !low || !high || !above) throw new TypeError('four ports')
  await sees(t, client, { pass: [low, high], drop: [below, above] }, 'accept from 1001 to 1002')
  await reset()
})

judged('fw-18 a port rule without protocol matches TCP and UDP only', async (t) => {
  await rule({ action: 'drop', dest_port: 1000 })
  for (const host of [SERVER.v4, SERVER.v6]) {
    const pass = [ping(host), tcp(host, 1001), udp(host, 1001)]
    await sees(t, client, { pass, drop: [tcp(host, 1000), udp(host, 1000)] }, `ICMP passes to ${host}`)
  }
  await reset()
  await put('/api/v1/rules/default', { default_action: 'deny' })
  await rule({ action: 'accept', dest_port: 1000 })
  for (const host of [SERVER.v4, SERVER.v6]) {
    const pass = [tcp(host, 1000), udp(host, 1000)]
    await sees(t, client, { pass, drop: [ping(host)] }, `ICMP is not accepted to ${host}`)
  }
  await reset()
})

judged('fw-18 fragments are judged by the ports of their first', async (t) => {
  const large = (host: string, port: number) => udp(host, port, { size: 4000 })
  await rule({ action: 'drop', dest_port: 1000 })
  for (const host of [SERVER.v4, SERVER.v6]) {
    await sees(t, client, { pass: [large(host, 1001)], drop: [large(host, 1000)] }, 'three fragments')
  }
  await reset()
})

judged('fw-09 D68 protocols and source ports match what they name', async (t) => {
  const seen = [tcp(SERVER.v4, 1000), udp(SERVER.v4, 1000), ping(SERVER.v4), ping(SERVER.v6)] as const
  const [t4, u4, p4, p6] = seen
  const cases = [
    { fields: { protocol: 'tcp' }, drop: [t4, tcp(SERVER.v6, 1000)], pass: [u4, p4] },
    { fields: { protocol: 'udp' }, drop: [u4, udp(SERVER.v6, 1000)], pass: [t4, p4] },
    { fields: { protocol: 'icmp' }, drop: [p4], pass: [t4, u4, p6] },
    { fields: { protocol: 'udp', dest_port: 1000 }, drop: [u4], pass: [t4, udp(SERVER.v4, 1001)] },
    {
      fields: { source_port: 5555 },
      drop: [udp(SERVER.v4, 1000, { sport: 5555 }), tcp(SERVER.v6, 1000, { sport: 5555 })],
      pass: [udp(SERVER.v4, 1000, { sport: 5556 }), tcp(SERVER.v6, 1000, { sport: 5556 })],
    },
    {
      fields: { protocol: 'udp', source_port: 5557, dest_port: 1000 },
      drop: [udp(SERVER.v4, 1000, { sport: 5557, from: CLIENT.v4 })],
      pass: [udp(SERVER.v4, 1001, { sport: 5557, from: CLIENT.second4 }), udp(SERVER.v4, 1000, { sport: 5558 })],
    },
  ]
  for (const { fields, ...expected } of cases) {
    await rule({ action: 'drop', ...fields })
    await sees(t, client, expected, JSON.stringify(fields))
    await reset()
  }
})

judged('fw-19 interface binds to one ingress device', async (t) => {
  await rule({ action: 'drop', interface: 'r1' })
  await sees(t, other, { pass: [udp(SERVER.v4, 1000), tcp(SERVER.v6, 1000), udp('10.3.0.1', 1000)] }, 'r3 passes')
  await sees(t, client, { drop: [udp(SERVER.v4, 1000), tcp(SERVER.v6, 1000), udp(ROUTER.v4, 1000)] }, 'r1 is dropped')
  await reset()
  await rule({ action: 'drop', interface: 'r2', dest_port: 1000 })
  await sees(t, client, { pass: [udp(SERVER.v4, 1000)] }, 'the egress device does not count')
  await reset()
})

judged('D67 a device that does not exist yet is accepted, and matches when it appears', async (t) => {
  await rule({ action: 'drop', interface: 'late0', dest_port: 1000 })
  await sees(t, client, { pass: [udp(SERVER.v4, 1000)] }, 'nothing else matches meanwhile')
  for (const round of ['appears', 'is made again']) {
    const inner: (() => unknown)[] = []
    const scope = { teardown: (work: () => unknown) => void inner.push(work) }
    const [ours, theirs] = ['10.9.0.1/24', '10.9.0.2/24']
    veth(scope as typeof t, { ns: router, name: 'late0', addr: ours }, { ns: client.ns, name: 'late1', addr: theirs })
    await sees(t, client, { pass: [udp('10.9.0.1', 1001)], drop: [udp('10.9.0.1', 1000)] }, `the device ${round}`)
    for (const work of inner) await work()
  }
  await reset()
})

judged('fw-20 mac matches the source MAC', async (t) => {
  const moved = '02:00:00:00:01:99'
  const wear = (mac: string) => {
    client.ns.run('ip', 'link', 'set', 'eth0', 'address', mac)
    router.run('ip', 'neigh', 'flush', 'dev', 'r1')
  }
  const targets = [udp(SERVER.v4, 1000), tcp(SERVER.v6, 1000), udp(ROUTER.v4, 1000)]
  await rule({ action: 'drop', mac: CLIENT.mac.toUpperCase().replaceAll(':', '-'), dest_port: 1000 })
  const fence = [udp(SERVER.v4, 1001), tcp(SERVER.v6, 1001)]
  await sees(t, client, { drop: targets, pass: fence }, 'the MAC is dropped')
  await sees(t, other, { pass: [udp(SERVER.v4, 1000)] }, 'another MAC passes')
  wear(moved)
  await sees(t, client, { pass: targets }, 'the same machine with another MAC passes')
  wear(CLIENT.mac)
  await reset()

  await put('/api/v1/rules/default', { default_action: 'deny' })
  await rule({ action: 'accept', mac: OTHER.mac })
  await sees(t, other, { pass: [udp(SERVER.v4, 1000), tcp(SERVER.v6, 1000)] }, 'the accepted MAC passes')
  await sees(t, client, { drop: [udp(SERVER.v4, 1000), tcp(SERVER.v6, 1000)] }, 'another one does not')
  await reset()
})

judged('fw-21 source_ip accepts address or CIDR, IPv4 and IPv6', async (t) => {
  const [first, second] = [{ from: CLIENT.v4 }, { from: CLIENT.second4 }]
  const [first6, second6] = [{ from: CLIENT.v6 }, { from: CLIENT.second6 }]
  const four = {
    drop: [udp(SERVER.v4, 1000, first), tcp(ROUTER.v4, 1000, first)],
    pass: [udp(SERVER.v4, 1000, second)],
  }
  const six = {
    drop: [udp(SERVER.v6, 1000, first6), tcp(ROUTER.v6, 1000, first6)],
    pass: [tcp(SERVER.v6, 1000, second6)],
  }
  for (const source_ip of ['10.1.0.2', '10.1.0.2/32', '10.1.0.0/25', '10.1.0.77/25']) {
    await rule({ action: 'drop', source_ip })
    await sees(t, client, { ...four, pass: [...four.pass, udp(SERVER.v6, 1000)] }, source_ip)
    await reset()
  }
  for (const source_ip of ['fd01::2', 'FD01:0:0:0::2/128', 'fd01::/65', 'fd01::77/65']) {
    await rule({ action: 'drop', source_ip, dest_port: 1000 })
    await sees(t, client, { ...six, pass: [...six.pass, udp(SERVER.v4, 1000)] }, source_ip)
    await reset()
  }
})

judged('fw-21 dest_ip accepts address or CIDR, IPv4 and IPv6', async (t) => {
  const [near, far] = [udp(SERVER.v4, 1000), udp(SERVER.second4, 1000)]
  const [near6, far6] = [tcp(SERVER.v6, 1000), tcp(SERVER.second6, 1000)]
  const cases = [
    { dest_ip: '10.2.0.2', drop: [near], pass: [far, near6] },
    { dest_ip: '10.2.0.128/25', drop: [far], pass: [near, far6] },
    { dest_ip: '10.2.0.0/16', drop: [near, far], pass: [near6, udp(ROUTER.v4, 1000)] },
    { dest_ip: 'fd02::2', drop: [near6], pass: [far6, near] },
    { dest_ip: 'fd02:0:0:0:8000::/65', drop: [far6], pass: [near6, near] },
    { dest_ip: 'fd02::/16', drop: [near6, far6], pass: [near, tcp(ROUTER.v6, 1000)] },
    { dest_ip: '0.0.0.0/0', drop: [near, far], pass: [near6, far6] },
    { dest_ip: '::/0', drop: [near6, far6], pass: [near, far] },
  ]
  for (const { dest_ip, ...expected } of cases) {
    await rule({ action: 'drop', dest_ip, dest_port: 1000 })
    await sees(t, client, expected, dest_ip)
    await reset()
  }
  await rule({ action: 'drop', source_ip: CLIENT.v4, dest_ip: SERVER.v4 })
  const pass = [udp(SERVER.v4, 1000, { from: CLIENT.second4 }), udp(SERVER.second4, 1000, { from: CLIENT.v4 })]
  await sees(t, client, { drop: [udp(SERVER.v4, 1000, { from: CLIENT.v4 })], pass }, 'both must match')
  await reset()
})

judged('fw-41 rules apply to traffic for the node itself and to routed traffic', async (t) => {
  const everywhere = [SERVER.v4, SERVER.v6, ROUTER.v4, ROUTER.v6, '10.2.0.1', 'fd02::1']
  await rule({ action: 'drop', dest_port: 1000 })
  const of = (port: number) => everywhere.flatMap((host) => [tcp(host, port), udp(host, port)])
  await sees(t, client, { drop: of(1000), pass: of(1001) }, 'to every address of node and server')
  await reset()
  await sees(t, client, { pass: of(1000) }, 'and no longer once it is deleted')
})
