import t from 'tap'
import type { FilterMatch } from '../../dataplane/bpf/firewall/entries.ts'
import { type Prefix, parsePrefix } from '../../dataplane/nft/text.ts'
import { wordsOf } from './address.ts'
import { ADVERSARIES } from './adversarial.ts'
import { type Packet, packets } from './packets.ts'
import { linear, matcher, reference } from './reference.ts'
import { mixed, rule } from './rulesets.ts'

function prefix(text: string): Prefix {
  const parsed = parsePrefix(text)
  if (parsed === undefined) throw new TypeError(text)
  return parsed
}

const address = (text: string) => wordsOf(prefix(text))

const PACKET: Packet = {
  family: 4,
  source: address('192.0.2.77'),
  dest: address('198.51.100.128'),
  protocol: 6,
  sourcePort: 40_000,
  destPort: 443,
  ident: 0,
  interface: 'in1',
  mac: '02:00:00:00:00:01',
}
const PACKET6: Packet = {
  ...PACKET,
  family: 6,
  source: address('2001:db8:0:1::ff'),
  dest: address('2001:db8:ffff::1'),
}

t.test('each field is compared, both ends of what it covers included', async (t) => {
  const cases: [FilterMatch, Partial<Packet>, boolean][] = [
    [{}, {}, true],
    [{ source: prefix('192.0.2.0/24') }, {}, true],
    [{ source: prefix('192.0.2.64/26') }, {}, true],
    [{ source: prefix('192.0.2.76/31') }, {}, true],
    [{ source: prefix('192.0.2.78/31') }, {}, false],
    [{ source: prefix('0.0.0.0/0') }, {}, true],
    [{ dest: prefix('198.51.100.128') }, {}, true],
    [{ dest: prefix('198.51.100.129') }, {}, false],
    [{ dest: prefix('192.0.2.0/24') }, {}, false],
    [{ source: prefix('::/0') }, {}, false],
    [{ protocol: 'tcp' }, {}, true],
    [{ protocol: 'udp' }, {}, false],
    [{ protocol: 'icmp' }, { protocol: 1, sourcePort: 0, destPort: 0 }, true],
    [{ sourcePort: 40_000 }, {}, true],
    [{ sourcePort: 40_001 }, {}, false],
    [{ destPorts: [443, 443] }, {}, true],
    [{ destPorts: [400, 443] }, {}, true],
    [{ destPorts: [443, 500] }, {}, true],
    [{ destPorts: [444, 500] }, {}, false],
    [{ destPorts: [400, 442] }, {}, false],
    [{ destPorts: [443, 443] }, { protocol: 17 }, true],
    [{ destPorts: [1, 65_535] }, { protocol: 50, sourcePort: 0, destPort: 0 }, false],
    [{ sourcePort: 7 }, { protocol: 132, sourcePort: 7 }, false],
    [{ protocol: 'udp', destPorts: [443, 443] }, {}, false],
    [{ interface: 'in1' }, {}, true],
    [{ interface: 'in2' }, {}, false],
    [{ mac: '02:00:00:00:00:01' }, {}, true],
    [{ mac: '02:00:00:00:00:02' }, {}, false],
    [{ source: prefix('192.0.2.0/24'), destPorts: [80, 80] }, {}, false],
  ]
  for (const [match, change, wanted] of cases) {
    t.equal(matcher(match)({ ...PACKET, ...change }), wanted, JSON.stringify([match, change]))
  }
  const cases6: [FilterMatch, Partial<Packet>, boolean][] = [
    [{ source: prefix('2001:db8::/32') }, {}, true],
    [{ source: prefix('2001:db8:0:1::/64') }, {}, true],
    [{ source: prefix('2001:db8:0:2::/64') }, {}, false],
    [{ source: prefix('2001:db8:0:1::f0/125') }, {}, false],
    [{ source: prefix('2001:db8:0:1::f8/125') }, {}, true],
    [{ dest: prefix('2001:db8:ffff::1') }, {}, true],
    [{ source: prefix('0.0.0.0/0') }, {}, false],
    [{ protocol: 'icmp' }, { protocol: 1 }, false],
    [{ protocol: 'icmp' }, { protocol: 58 }, false],
    [{ destPorts: [443, 443] }, {}, true],
  ]
  for (const [match, change, wanted] of cases6) {
    t.equal(matcher(match)({ ...PACKET6, ...change }), wanted, JSON.stringify([match, change]))
  }
})

t.test('D66 the lowest rank decides: level, then priority, then what is left', async (t) => {
  const rules = [
    rule(1, [2, 0], true, {}),
    rule(2, [1, 9], true, {}),
    rule(3, [1, 8], false, { destPorts: [443, 443] }),
    rule(4, [1, 8], true, {}),
    rule(5, [0, 0], true, { interface: 'in3' }),
  ]
  for (const decide of [linear(rules), reference(rules)]) {
    t.equal(decide(PACKET)?.id, 3)
    t.equal(decide({ ...PACKET, destPort: 444 })?.id, 4)
    t.equal(decide({ ...PACKET, interface: 'in3' })?.id, 5)
  }
  t.equal(linear(rules.slice(4))(PACKET), undefined)
})

t.test('the index changes nothing', async (t) => {
  for (const { name, make } of [{ name: 'mixed', make: mixed }, ...ADVERSARIES]) {
    const rules = make(400, 5)
    const [slow, fast] = [linear(rules), reference(rules)]
    const list = packets(rules, 300, 9)
    const wrong = list.filter((packet) => slow(packet) !== fast(packet))
    t.equal(wrong.length, 0, name)
    t.ok(list.some((packet) => slow(packet) !== undefined))
  }
})
