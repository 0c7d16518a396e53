/** Limited guests of a private network reach whom they may, and nobody else: neighbours, the node, everybody by broadcast. */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { workloadNode } from '../../../test/workload.ts'
import { BANDWIDTH, QUOTAS } from './lab.ts'

requireRoot(t)

t.test('bw-06 a limit changes no way that a frame takes', async (t) => {
  const node = await workloadNode(t, { config: { uplink: 'lo' } })
  const [a, b, c] = [node.guest('a'), node.guest('b'), node.guest('c')]
  const network = async (name: string) => {
    const fields = { name, cidr: '10.0.0.0/24', ...(name === 'lan' && { gateway: '10.0.0.254', host_gateway: true }) }
    return ((await node.ok('POST', '/api/v1/networks', fields)).network as { id: string }).id
  }
  const attach = async (id: string, guest: typeof a, ip: string) => {
    const wanted = { machine: guest.port, network: id, ip, port: guest.port }
    const { nic } = await node.ok('POST', '/control/v1/compute/machines', wanted)
    const { mac } = nic as { mac: string }
    guest.setMac(mac)
    guest.ns.run('ip', 'address', 'add', `${ip}/24`, 'dev', 'eth0')
    return mac
  }
  const lan = await network('lan')
  const macs = [await attach(lan, a, '10.0.0.1'), await attach(lan, b, '10.0.0.2')]
  // On a port of its own without network, whose frames must not get in.
  c.ns.run('ip', 'address', 'add', '10.0.0.3/24', 'dev', 'eth0')
  await node.guarded(a, b, c)
  const all = (when: string) => {
    t.ok(a.reaches('10.0.0.2'), `${when}: neighbour`)
    t.ok(b.reaches('10.0.0.1'), `${when}: neighbour, the other way`)
    t.ok(a.reaches('10.0.0.254'), `${when}: the node`)
    t.notOk(c.pings('10.0.0.1'), `${when}: nobody from elsewhere`)
    t.notOk(a.pings('10.0.0.3'), `${when}: nobody elsewhere`)
    for (const guest of [a, b]) guest.ns.run('ip', 'neigh', 'flush', 'all')
    t.ok(a.reaches('10.0.0.2'), `${when}: asked by broadcast`)
  }
  for (const [at, direction] of ['up', 'down'].entries()) {
    await node.ok('POST', BANDWIDTH, { id: `l${at}`, target_mac: macs[at], rate_bps: 10_000_000, direction })
    all(direction)
  }
  for (const [at, mac] of macs.entries()) {
    await node.ok('POST', BANDWIDTH, { id: `l${at}`, target_mac: mac, rate_bps: 10_000_000 })
    await node.ok('POST', QUOTAS, { id: `q${at}`, mac, monthly_limit_bytes: 10 ** 9, action: 'block', enforced: true })
  }
  all('both')
  const big = a.ns.run('ping', '-n', '-c', '1', '-w', '10', '-s', '8000', '10.0.0.2')
  t.match(big, / 1 received/, 'fragments as well')
  for (const at of [0, 1]) await node.ok('DELETE', `${BANDWIDTH}/l${at}`)
  all('neither')
})

t.test('bw-06 a MAC that two networks have is limited and counted in both', async (t) => {
  const node = await workloadNode(t, { config: { uplink: 'lo' } })
  const guests = [node.guest('a'), node.guest('b'), node.guest('c'), node.guest('d')] as const
  const [a, b, c, d] = guests
  const mac = '02:00:00:00:78:01'
  for (const [name, lan, one, other] of [
    ['one', '10.0.1', a, b],
    ['two', '10.0.2', c, d],
  ] as const) {
    const made = await node.ok('POST', '/api/v1/networks', { name, cidr: `${lan}.0/24` })
    const network = (made.network as { id: string }).id
    for (const [guest, ip, own] of [
      [one, `${lan}.1`, { mac }],
      [other, `${lan}.2`, {}],
    ] as const) {
      const wanted = { machine: guest.port, network, ip, port: guest.port, ...own }
      const { nic } = await node.ok('POST', '/control/v1/compute/machines', wanted)
      guest.setMac((nic as { mac: string }).mac)
      guest.ns.run('ip', 'address', 'add', `${ip}/24`, 'dev', 'eth0')
    }
  }
  await node.guarded(...guests)
  await node.ok('POST', BANDWIDTH, { id: 'l', target_mac: mac, rate_bps: 10_000_000 })
  await node.ok('POST', QUOTAS, { id: 'q', mac, monthly_limit_bytes: 10 ** 9 })
  const used = async () => ((await node.ok('GET', `${QUOTAS}/${mac}`)).quota as { used_bytes: number }).used_bytes
  t.ok(b.reaches('10.0.1.1') && d.reaches('10.0.2.1'))
  const before = await used()
  const many = 20
  const ping = ['-n', '-q', '-c', String(many), '-i', '0.05', '-s', '1000']
  // At the same time, so that each port is that of the MAC whatever comes by the other.
  const meanwhile = b.ns.spawn('ping', [...ping, '10.0.1.1'])
  const ended = new Promise((resolve) => meanwhile.once('close', resolve))
  t.match(d.ns.run('ping', ...ping, '10.0.2.1'), ` ${many} received`)
  t.equal(await ended, 0)
  const more = (await used()) - before
  t.ok(more >= 2 * 2 * many * 1042, `${more}: both ways, both`)
})
