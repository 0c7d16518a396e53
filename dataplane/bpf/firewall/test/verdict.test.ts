/** Real packets through conntrack, nft and the classifier: which of them get past. */
import '../../../../test/inside.ts'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import t from 'tap'
import { here } from '../../../../test/inside.ts'
import { netns, netnsNamed, requireRoot, veth } from '../../../../test/netns.ts'
import { bpffs, run } from '../../test/support.ts'
import type { FilterRule } from '../entries.ts'
import { openClassifier } from '../open.ts'
import { prefix, ruleWith } from './small.ts'
import { extension, FAR, fragment6, ip4, ip6, RST, SPARED, SYN, tcp4, tun, udp, udp4, udp6, wire } from './wire.ts'

requireRoot(t)

const root = bpffs(t)
const cable = wire(t, SPARED)
const it = await openClassifier({ root, onProblem: (error) => t.fail(String(error)) })
t.teardown(() => it.close())

/** A default that denies spares what nft has marked. */
const defaultTo = (accept: boolean, spares = !accept) =>
  it.defaults.apply([
    { after: { kind: 'filter_default', key: 'firewall/filter_default', accept, ...(spares && { spares }) } },
  ])
async function hold(rules: readonly FilterRule[], accept: boolean): Promise<void> {
  const gone = (await it.rules.observe()).map((before) => ({ before }))
  await it.rules.apply([...gone, ...rules.map((after) => ({ after }))])
  await defaultTo(accept)
}
const drop = (id: number, match: FilterRule['match'], more: Partial<FilterRule> = {}) =>
  ruleWith(id, match, { accept: false, ...more })

/** An ICMP error about a packet that was never sent. */
const stray4 = (id: number) => {
  const about = ip4(9, { from: '198.18.0.77', protocol: 17, payload: udp(7, 7, 0) })
  return ip4(id, { protocol: 1, payload: Buffer.concat([Buffer.of(3, 1, 0, 0, 0, 0, 0, 0), about]) })
}
/** A header of UDP that is cut off. */
const short4 = (sourcePort: number, destPort: number) => (id: number) =>
  ip4(id, { protocol: 17, payload: udp(sourcePort, destPort, 0).subarray(0, 6) })

t.test('fw-01 fw-05 packets without a connection are judged too: by rules, then by the default', async (t) => {
  const odd = [tcp4(5, 80, RST), short4(5, 80), stray4]
  await hold([], true)
  t.same(await cable.send(udp4(1, 80), tcp4(1, 80, SYN), ...odd), [true, true, true, true, true], 'default allow')
  await hold([], false)
  t.same(await cable.send(udp4(2, 80), tcp4(2, 80, SYN), ...odd), [false, false, false, false, false], 'default deny')
  await hold([drop(1, { destPorts: [80, 80] }), drop(2, { protocol: 'icmp' })], true)
  t.same(await cable.send(udp4(3, 80), udp4(3, 81), ...odd), [false, true, false, false, false], 'explicit drops')
  await hold([ruleWith(1, { destPorts: [80, 80] })], false)
  t.same(await cable.send(udp4(4, 80), udp4(4, 81), ...odd), [true, false, true, true, false], 'explicit accepts')
  t.ok((it.filter.count(1)?.packets ?? 0n) === 3n, 'all of them count')
})

t.test('fw-03 IPv6: ports behind extension headers; fragments in any order', async (t) => {
  await hold([ruleWith(1, { destPorts: [80, 80] })], false)
  const [hop, options] = [0, 60]
  const headers: [number, Buffer][] = [
    [hop, extension(8)],
    [options, extension(16)],
    [options, extension(8)],
  ]
  t.same(await cable.send(udp6(1, 80, headers), udp6(1, 81, headers)), [true, false])
  t.same(await cable.send(udp6(2, 80, [[options, extension(24)]]), udp6(2, 81, [[options, extension(24)]])), [
    true,
    false,
  ])
  const parts6 = (port: number) => (id: number) => {
    const whole = udp(3, port, 32)
    const part = (at: number, end: number) =>
      ip6(id, { protocol: 17, payload: whole.subarray(at, end) }, [[44, fragment6(id, at, end < whole.length)]])
    return [part(24, 40), part(0, 24)]
  }
  const parts4 = (port: number) => (id: number) => {
    const whole = udp(3, port, 32)
    const part = (at: number, end: number) =>
      ip4(id, { protocol: 17, payload: whole.subarray(at, end), fragment: [at, end < whole.length] })
    return [part(24, 40), part(0, 24)]
  }
  t.same(await cable.send(parts6(80), parts6(81)), [true, false], 'IPv6')
  t.same(await cable.send(parts4(80), parts4(81)), [true, false], 'IPv4')
  t.same(await cable.send(udp4(4, 80, { options: Buffer.alloc(8, 1) }), udp4(4, 81, { options: Buffer.alloc(8, 1) })), [
    true,
    false,
  ])
})

t.test('neighbour discovery passes a default deny when nft spares it; nobody spares himself', async (t) => {
  const solicit = (id: number) => {
    const payload = Buffer.alloc(24)
    payload[0] = 135
    return ip6(id, { protocol: 58, payload })
  }
  await hold([], false)
  t.same(await cable.send(solicit, udp6(1, 1)), [true, false])
  await hold([drop(1, {})], false)
  t.same(await cable.send(solicit), [false], 'an explicit drop decides')
  await hold([], false)
  cable.before('')
  t.same(await cable.send(solicit), [false], 'unmarked')
  // Marked before nft's mark is taken from it.
  cable.nft(`table inet early {
    chain first {
      type filter hook prerouting priority -160
      meta priority set ffff:5354
    }
  }`)
  t.same(await cable.send(udp4(5, 5)), [true], 'control: the mark spares')
  await defaultTo(false, false)
  t.same(await cable.send(udp4(7, 7)), [false], 'but not where nothing is to be spared')
  await defaultTo(false)
  cable.before(SPARED)
  t.same(await cable.send(udp4(6, 6)), [false], 'and is taken from who brings it')
  cable.nft('delete table inet early')
})

t.test('without conntrack nothing is admitted that neither rules nor the default admit', async (t) => {
  cable.before(undefined)
  await hold([ruleWith(1, { destPorts: [80, 80] })], false)
  t.same(await cable.send(udp4(1, 80), udp4(1, 81), udp6(1, 80), udp6(1, 81)), [true, false, true, false])
  cable.before(SPARED)
})

t.test('fw-04 MAC and device rules', async (t) => {
  await hold([ruleWith(1, { mac: cable.mac })], false)
  t.same(await cable.send(udp4(1, 1), udp6(1, 1)), [true, true])
  await hold([ruleWith(1, { mac: '02:00:00:00:00:99' })], false)
  t.same(await cable.send(udp4(2, 1), udp6(2, 1)), [false, false])
  await hold([ruleWith(1, { interface: 'near' }), drop(2, { interface: 'later0' })], false)
  t.same(await cable.send(udp4(3, 1), udp6(3, 1)), [true, true])
  run('ip', 'link', 'set', 'near', 'down')
  run('ip', 'link', 'set', 'near', 'name', 'other0')
  run('ip', 'link', 'set', 'other0', 'up')
  t.same(await cable.send(udp4(4, 1)), [false], 'renamed: the rule is about the name')
  run('ip', 'link', 'set', 'other0', 'down')
  run('ip', 'link', 'set', 'other0', 'name', 'near')
  run('ip', 'link', 'set', 'near', 'up')
  t.same(await cable.send(udp4(5, 1)), [true])
})

t.test('what comes without a MAC header meets no rule with a MAC', async (t) => {
  const flat = tun(t, 'flat0')
  const within = (id: number) => {
    flat(udp4(1, 1)(id))
    return []
  }
  const mac = ruleWith(1, { mac: '00:00:00:00:00:00' })
  await hold([mac, ruleWith(2, { mac: cable.mac })], false)
  t.same(await cable.send(within, udp4(1, 1)), [false, true])
  await hold([mac, ruleWith(2, { interface: 'flat0' })], false)
  t.same(await cable.send(within), [true], 'control')
})

t.test('a device rule holds for a device that is deleted and made again', async (t) => {
  const own = netnsNamed(t, here ?? '')
  const peer = netns(t, 'more')
  const ask = async () => {
    const [near, far] = [
      { ns: own, name: 'twin0', addr: '198.18.5.1/24' },
      { ns: peer, name: 'far0', addr: '198.18.5.2/24' },
    ]
    veth(t, near, far)
    const before = it.filter.count(1)?.packets ?? 0n
    peer.run(
      'sh',
      '-c',
      'ping -n -q -c 1 -W 1 198.18.5.1 >/dev/null 2>&1; ping -n -q -c 1 -W 1 198.18.5.1 >/dev/null 2>&1; true',
    )
    run('ip', 'link', 'del', 'twin0')
    return (it.filter.count(1)?.packets ?? 0n) > before
  }
  await hold([ruleWith(1, { interface: 'twin0' })], false)
  t.ok(await ask())
  t.ok(await ask(), 'another device of that name')
  await hold([ruleWith(2, { interface: 'twin1' })], false)
  t.notOk(await ask())
})

t.test('D72 a fresh drop ends a connection where it was opened; an accept above it keeps it', async (t) => {
  await hold([ruleWith(1, { destPorts: [5000, 5000] })], false)
  const server = createSocket('udp4', (data, from) => server.send(data, from.port, from.address))
  server.bind(5000)
  await once(server, 'listening')
  t.teardown(() => server.close())
  const talk = () => udp4(4000, 5000)
  t.same(await cable.send(talk(), talk()), [true, true])
  await hold([], false)
  t.same(await cable.send(talk(), udp4(4001, 5000)), [true, false], 'the connection stands, another does not come')
  const fresh = drop(3, { destPorts: [5000, 5000] }, { fresh: true, rank: [2, 0, 3] })
  await hold([fresh], true)
  t.same(await cable.send(talk()), [false], 'ended')
  t.ok((it.filter.count(3)?.packets ?? 0n) > 0n)
  await hold([fresh, ruleWith(4, { source: prefix(FAR[4]) }, { rank: [1, 0, 4] })], true)
  t.same(await cable.send(talk()), [true], 'an accept above keeps it')
  await hold([drop(3, { destPorts: [5000, 5000] })], true)
  t.same(await cable.send(talk(), udp4(4002, 5000)), [true, false], 'a drop that is not fresh concerns new ones')
})
