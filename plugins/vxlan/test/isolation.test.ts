/** Who never meets whom: overlays among each other, private networks, open ports, uplinks. */
import t from 'tap'
import { ethernet, ipv4, TYPE, udp } from '../../../dataplane/bpf/port/test/packet.ts'
import { frame, type Tap, tap } from '../../../test/frames.ts'
import { requireRoot } from '../../../test/netns.ts'
import type { Guest } from '../../../test/workload.ts'
import { NETWORKS, type Site, site } from './site.ts'

requireRoot(t)

const PRIVATE = '/api/v1/networks'
let marks = 0

/** Resolves when `mark`, sent from somewhere behind what is looked for, has come in; to all frames that had by then. */
async function until(to: Tap, mark: string): Promise<Buffer[]> {
  const signal = AbortSignal.timeout(10_000)
  const all: Buffer[] = []
  for (;;) {
    all.push(...to.seen())
    if (all.some((one) => one.includes(mark))) return all
    if (signal.aborted) throw new Error(`${mark} did not arrive`)
    await new Promise((wait) => setTimeout(wait, 2))
  }
}

/**
 * Whether a frame of `from` gets to `to`. `by` gets it for certain and sends to `to` itself afterwards, on the way that it
 * would have taken: once that is there, nothing comes any more. `cast`: it is for many, so `by` sees it.
 */
async function leaks(from: Tap, by: Tap, to: Tap, header: { to?: string; tags?: number[]; from?: string } = {}) {
  const [mark, seen, end] = ['leak', 'seen', 'end'].map((word) => `${word} number ${++marks} of this test`)
  for (const one of [by, to]) one.seen()
  from.send(frame({ from: from.mac, ...header }, Buffer.from(`${mark}`)))
  from.send(frame({ from: from.mac }, Buffer.from(`${seen}`)))
  await until(by, `${seen}`)
  by.send(frame({ from: by.mac }, Buffer.from(`${end}`)))
  return (await until(to, `${end}`)).some((one) => one.includes(`${mark}`))
}

async function place(node: Site, network: string, guest: Guest, ip: string): Promise<string> {
  const wanted = { machine: guest.port, network, ip, port: guest.port }
  const { nic } = await node.ok('POST', '/control/v1/compute/machines', wanted)
  const { mac } = nic as { mac: string }
  guest.setMac(mac)
  guest.ns.run('ip', 'address', 'add', `${ip}/24`, 'dev', 'eth0')
  return mac
}

/** Adds a tenant and gives its id. */
const tenant = async (node: Site, name: string) =>
  ((await node.ok('POST', '/api/v1/tenant', { name })).tenant as { id: string }).id

const network = async (node: Site, fields: object) =>
  ((await node.ok('POST', PRIVATE, fields)).network as { id: string }).id

async function netOf(node: Site, port: string): Promise<number | undefined> {
  const { ports } = await node.ok('GET', '/control/v1/l2/ports')
  return (ports as { name: string; net: number }[]).find(({ name }) => name === port)?.net
}

t.test('vxlan-12 two VNIs never exchange a frame, nor does one with an uplink', async (t) => {
  const node = await site(t, 4, { workload_uplinks: 'taplan1' })
  const lan = node.guest('lan')
  const [one, two] = [node.remote(11), node.remote(12)]
  one.tunnel(100, { address: '10.7.0.11/24' })
  two.tunnel(200, { address: '10.7.0.12/24' })
  const near = node.guest('a', { addresses: ['10.7.0.1/24'] })
  await node.guarded(near, lan)
  await node.overlay(100, {}, one)
  await node.overlay(200, {}, two)
  t.equal(lan.port, 'taplan1', 'it is the uplink')
  t.ok(near.reaches('10.7.0.11'), 'an open port is served by both')
  t.ok(near.reaches('10.7.0.12'))
  t.notOk(one.pings('10.7.0.12'), 'through the node')
  const [far1, far2, wire, by] = [tap(t, one.ns, 'vx100'), tap(t, two.ns, 'vx200'), tap(t, lan.ns), tap(t, near.ns)]
  for (const [what, from, to] of [
    ['one overlay to the other', far1, far2],
    ['the other to the one', far2, far1],
    ['an overlay to the uplink', far1, wire],
    ['the uplink to an overlay', wire, far1],
  ] as const) {
    t.notOk(await leaks(from, by, to), `${what}: broadcast`)
    t.notOk(await leaks(from, by, to, { to: to.mac }), `${what}: to a MAC that is known there`)
    t.notOk(await leaks(from, by, to, { tags: [9] }), `${what}: tagged`)
    t.notOk(await leaks(from, by, to, { from: by.mac }), `${what}: as somebody else`)
    // Its own word puts the MAC where it belongs again.
    t.notOk(await leaks(from, by, to, { to: '02:00:00:00:00:77' }), `${what}: to a MAC that nobody knows`)
  }
})

t.test('vxlan-12 two overlays of one private network do not meet either', async (t) => {
  const node = await site(t)
  const [one, two] = [node.remote(11), node.remote(12)]
  one.tunnel(100, { address: '10.0.0.11/24' })
  two.tunnel(200, { address: '10.0.0.12/24' })
  const near = node.guest('a')
  await node.guarded(near)
  const id = await network(node, { name: 'red', cidr: '10.0.0.0/24', vlan: 300 })
  await place(node, id, near, '10.0.0.1')
  for (const [vni, far] of [
    [100, one],
    [200, two],
  ] as const) {
    t.match(await node.overlay(vni, { network: 'red' }, far), { network_id: id, subnet: '10.0.0.0/24' })
  }
  t.ok(near.reaches('10.0.0.11'))
  t.ok(near.reaches('10.0.0.12'))
  const [far1, far2, by] = [tap(t, one.ns, 'vx100'), tap(t, two.ns, 'vx200'), tap(t, near.ns)]
  t.notOk(await leaks(far1, by, far2), 'broadcast')
  t.notOk(await leaks(far1, by, far2, { to: far2.mac }), 'past the bridge')
})

t.test('an overlay belongs to the private network that had its subnet when it was made, and to no other', async (t) => {
  const node = await site(t)
  const far = node.remote(11)
  far.tunnel(100, { address: '10.0.0.11/24' })
  const [near, open] = [node.guest('a'), node.guest('o', { addresses: ['10.0.0.66/24'] })]
  await node.guarded(near, open)
  t.notHas(await node.overlay(100, { subnet: '10.0.0.0/24' }, far), { network_id: String }, 'there is none yet')
  t.ok(open.reaches('10.0.0.11'), 'open ports are served')
  const red = await network(node, { name: 'red', cidr: '10.0.0.0/24', vlan: 300 })
  t.equal(await netOf(node, 'vx100'), 0, 'a network that comes later is another matter')
  await node.ok('DELETE', `${NETWORKS}/100`)

  t.match(await node.overlay(100, { subnet: '10.0.0.0/24' }, far), { network_id: red })
  const listed = async () => ((await node.ok('GET', NETWORKS)).vxlan_networks as object[])[0]
  t.match(await listed(), { vni: 100, subnet: '10.0.0.0/24', network_id: red })
  t.ok(((await netOf(node, 'vx100')) ?? 0) > 0, 'in force')
  await place(node, red, near, '10.0.0.1')
  t.ok(near.reaches('10.0.0.11'), 'its endpoints are served')
  t.ok(far.reaches('10.0.0.1'))
  t.notOk(open.pings('10.0.0.11'), 'open ports are not')
  const [outside, inside, stranger] = [tap(t, far.ns, 'vx100'), tap(t, near.ns), tap(t, open.ns)]
  outside.send(frame({ from: outside.mac, tags: [300] }, Buffer.from('under its tag')))
  stranger.seen()
  outside.send(frame({ from: outside.mac }, Buffer.from('for the network alone')))
  const heard = await until(inside, 'for the network alone')
  t.notOk(
    heard.some((one) => one.includes('under its tag')),
    'nobody gets in by a tag',
  )
  t.notOk(
    stranger.seen().some((one) => one.includes('for the network alone')),
    'nor does an open port hear of it',
  )

  const blue = await network(node, { name: 'blue', cidr: '10.0.0.0/24', tenant_id: await tenant(node, 'blue') })
  t.ok(near.reaches('10.0.0.11'), 'another network with the range changes nothing')
  const ambiguous = await node.agent.call('POST', NETWORKS, { vni: 200, subnet: '10.0.0.0/24' })
  t.equal(ambiguous.status, 409)
  t.match(ambiguous.body.error, /say which by network/)
  await node.ok('DELETE', `/control/v1/compute/machines/${near.port}`)
  await node.ok('DELETE', `${PRIVATE}/${red}`)
  t.match(await listed(), { closed: /is gone/ }, 'and it does not change over to it')
  t.not(await netOf(node, 'vx100'), 0)
  t.notOk(open.pings('10.0.0.11'))
  await node.ok('DELETE', `${PRIVATE}/${blue}`)
})

t.test('tenants with the same range, addresses and MACs each have an overlay of their own', async (t) => {
  const node = await site(t)
  const [one, two] = [node.remote(11), node.remote(12)]
  const mac = '02:00:00:00:00:11'
  one.tunnel(100, { address: '10.0.0.11/24', mac })
  two.tunnel(200, { address: '10.0.0.11/24', mac })
  const [a, b] = [node.guest('a'), node.guest('b')]
  await node.guarded(a, b)
  const red = await network(node, { name: 'red', cidr: '10.0.0.0/24', tenant_id: await tenant(node, 'red') })
  const blue = await network(node, { name: 'blue', cidr: '10.0.0.0/24', tenant_id: await tenant(node, 'blue') })
  await place(node, red, a, '10.0.0.1')
  await place(node, blue, b, '10.0.0.1')
  await node.overlay(100, { network: red }, one)
  await node.overlay(200, { network: blue }, two)
  t.ok(a.reaches('10.0.0.11'))
  t.ok(b.reaches('10.0.0.11'))
  t.ok(a.pings('10.0.0.11'), 'although both have one MAC')
  const [farRed, farBlue, nearRed, nearBlue] = [
    tap(t, one.ns, 'vx100'),
    tap(t, two.ns, 'vx200'),
    tap(t, a.ns),
    tap(t, b.ns),
  ]
  for (const one of [farBlue, nearBlue]) one.seen()
  nearRed.send(frame({ from: nearRed.mac, to: mac }, Buffer.from('a word of red')))
  t.ok(await until(farRed, 'a word of red'))
  farRed.send(frame({ from: mac, to: nearRed.mac }, Buffer.from('an answer to red')))
  t.ok(await until(nearRed, 'an answer to red'))
  nearBlue.send(frame({ from: nearBlue.mac }, Buffer.from('a word of blue')))
  const heard = await until(farBlue, 'a word of blue')
  t.notOk([...heard, ...nearBlue.seen()].some((one) => one.includes('of red') || one.includes('to red')))

  await node.ok('DELETE', `/control/v1/compute/machines/${b.port}`)
  await node.ok('DELETE', `${PRIVATE}/${blue}`)
  const shown = (await node.ok('GET', NETWORKS)).vxlan_networks as object[]
  t.match(shown[1], { vni: 200, closed: /is gone/ }, "the overlay of a network that is gone becomes nobody's")
  t.ok(a.pings('10.0.0.11'))
})

t.test('a guest that forges the VTEP of a peer is not heard in the overlay', async (t) => {
  const node = await site(t, 4, { open_ports: 'open' })
  const peer = node.remote(11)
  peer.tunnel(100, { address: '10.7.0.11/24' })
  const [near, attacker] = [
    node.guest('a', { addresses: ['10.7.0.1/24'] }),
    node.guest('b', { mac: '02:00:00:00:00:66' }),
  ]
  await node.guarded(near, attacker)
  await node.overlay(100, {}, peer)
  t.ok(near.reaches('10.7.0.11'), 'control: the peer is heard')
  const [from, to, behind] = [tap(t, attacker.ns), tap(t, near.ns), tap(t, peer.ns, 'vx100')]
  const [work] = JSON.parse(node.ns.run('ip', '-j', 'link', 'show', 'br-work')) as { address: string }[]
  const inner = frame({ from: '02:00:00:00:00:77' }, Buffer.from('a forged word'))
  const packet = ipv4(
    peer.vtep,
    '192.0.2.1',
    17,
    udp(5, 4789, Buffer.concat([Buffer.from('0800000000006400', 'hex'), inner])),
  )
  const tags = [[], [{ vid: 0 }]]
  for (const one of tags) from.send(ethernet(work?.address ?? '', from.mac, TYPE.ipv4, packet, one))
  behind.send(frame({ from: behind.mac }, Buffer.from('a true word')))
  t.notOk((await until(to, 'a true word')).some((one) => one.includes('a forged word')))
})

t.test('what an open port sends to the MAC of a peer leaves by the overlay of that peer alone', async (t) => {
  const node = await site(t)
  const [one, two] = [node.remote(11), node.remote(12)]
  const mac = '02:00:00:00:00:11'
  // The bridge would learn of the peer by whatever it says.
  one.ns.run('sysctl', '-qw', 'net.ipv6.conf.default.disable_ipv6=1')
  one.tunnel(100, { address: '10.7.0.11/24', mac })
  two.tunnel(200, { address: '10.7.0.12/24' })
  const [near, other] = [node.guest('a'), node.guest('b')]
  await node.guarded(near, other)
  await node.overlay(100, {}, { vtep: one.vtep, mac })
  await node.overlay(200, {}, two)
  const [from, there, elsewhere, beside] = [
    tap(t, near.ns),
    tap(t, one.ns, 'vx100'),
    tap(t, two.ns, 'vx200'),
    tap(t, other.ns),
  ]
  // Nobody has heard the peer yet.
  from.send(frame({ from: from.mac, to: mac }, Buffer.from('for the peer')))
  from.send(frame({ from: from.mac }, Buffer.from('for all')))
  t.ok((await until(there, 'for all')).some((one) => one.includes('for the peer')))
  for (const [name, end] of [
    ['the other overlay', elsewhere],
    ['the other guest', beside],
  ] as const)
    t.notOk(
      (await until(end, 'for all')).some((one) => one.includes('for the peer')),
      name,
    )
  await node.ok('DELETE', `${NETWORKS}/100/peers/${one.vtep}`)
  from.send(frame({ from: from.mac, to: mac }, Buffer.from('for nobody')))
  t.ok(await until(beside, 'for nobody'), 'a MAC that nobody has is flooded')
})
