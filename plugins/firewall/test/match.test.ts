/** Whether a rule matches a connection, against a second opinion that compares addresses bit by bit. */
import { isIPv6 } from 'node:net'
import fc from 'fast-check'
import t from 'tap'
import { flowOf, predicate } from '../match.ts'
import { readInput } from '../rules.ts'
import { NO_SCHEDULE, parseSchedule } from '../schedule.ts'
import type { RuleInput } from '../schemas.ts'
import type { Row } from '../tables.ts'
import { type Input, input } from './model.ts'

const NOW = new Date('2030-01-01T12:00:00Z')
const [ICMP, TCP, UDP, GRE, ICMPV6] = [1, 6, 17, 47, 58]

interface Seen {
  family: 4 | 6
  protocol: number
  src: string
  dst: string
  sport: number
  dport: number
  interface?: string
  mac?: string
}

const row = (fields: object, schedule = NO_SCHEDULE): Row => ({
  ...readInput({ action: 'drop', ...fields } as RuleInput),
  ...schedule,
  id: 1,
  tie: 1,
})
const matches = (rule: Row, { interface: device, mac, ...seen }: Seen): boolean =>
  predicate(rule, NOW)({ ...flowOf(seen), interface: device, mac })

const base: Seen = { family: 4, protocol: TCP, src: '10.0.0.1', dst: '192.0.2.1', sport: 5000, dport: 80 }
const six: Seen = { ...base, family: 6, src: 'fd00::1', dst: 'fd01::1' }

t.test('fw-16 fw-18 fw-21 what matches and what does not', async (t) => {
  const cases: [object, Partial<Seen>, boolean, Seen?][] = [
    [{}, {}, true],
    [{}, { protocol: GRE, sport: 0, dport: 0 }, true],
    [{ protocol: 'tcp' }, {}, true],
    [{ protocol: 'tcp' }, { protocol: UDP }, false],
    [{ protocol: 'tcp' }, {}, true, six],
    [{ protocol: 'icmp' }, { protocol: ICMP, sport: 0, dport: 0 }, true],
    [{ protocol: 'icmp' }, { protocol: ICMPV6, sport: 0, dport: 0 }, false, six],
    [{ dest_port: 80 }, { protocol: UDP }, true],
    [{ dest_port: 80 }, { protocol: GRE }, false],
    [{ dest_port: 80 }, { dport: 81 }, false],
    [{ dest_port: 80, dest_port_max: 82 }, { dport: 79 }, false],
    [{ dest_port: 80, dest_port_max: 82 }, { dport: 80 }, true],
    [{ dest_port: 80, dest_port_max: 82 }, { dport: 82 }, true],
    [{ dest_port: 80, dest_port_max: 82 }, { dport: 83 }, false],
    [{ source_port: 5000 }, {}, true],
    [{ source_port: 80 }, {}, false],
    [{ source_ip: '10.0.0.1' }, {}, true],
    [{ source_ip: '10.0.0.0/31' }, {}, true],
    [{ source_ip: '10.0.0.2/31' }, {}, false],
    [{ source_ip: '192.0.2.1' }, {}, false],
    [{ dest_ip: '192.0.2.0/24' }, {}, true],
    [{ dest_ip: '0.0.0.0/0' }, {}, true],
    [{ dest_ip: '0.0.0.0/0' }, {}, false, six],
    [{ dest_ip: '::/0' }, {}, false],
    [{ dest_ip: '::/0' }, {}, true, six],
    [{ dest_ip: 'fd01::/127' }, {}, true, six],
    [{ dest_ip: 'fd01::/128' }, {}, false, six],
    [{ interface: 'eth0' }, { interface: 'eth0' }, true],
    [{ interface: 'eth0' }, { interface: 'eth01' }, false],
    [{ interface: 'eth0' }, {}, false],
    [{ mac: '02-00-00-00-00-0A' }, { mac: '02:00:00:00:00:0a' }, true],
    [{ mac: '02:00:00:00:00:0a' }, { mac: '02:00:00:00:00:0b' }, false],
    [{ mac: '02:00:00:00:00:0a' }, {}, false],
    [{ source_ip: '10.0.0.1', dest_port: 80, protocol: 'tcp' }, {}, true],
    [{ source_ip: '10.0.0.1', dest_port: 80, protocol: 'udp' }, {}, false],
  ]
  for (const [fields, changes, expected, from = base] of cases) {
    const seen = { ...from, ...changes }
    t.equal(
      matches(row(fields), seen),
      expected,
      `${JSON.stringify(fields)} for ${JSON.stringify(changes)} ${from.src}`,
    )
  }
})

t.test('D70 a rule outside its window matches nothing', async (t) => {
  const window = (from: string, to: string) => row({}, parseSchedule({ from, to, daily: true }))
  t.equal(matches(window('11:00', '13:00'), base), true)
  t.equal(matches(window('13:00', '11:00'), base), false)
})

const bits = (text: string): string => {
  if (!isIPv6(text))
    return text
      .split('.')
      .map((part) => Number(part).toString(2).padStart(8, '0'))
      .join('')
  const [head = '', tail] = text.split('::')
  const groups = (part: string) => (part === '' ? [] : part.split(':'))
  const [front, back] = [groups(head), groups(tail ?? '')]
  const middle = tail === undefined ? [] : Array(8 - front.length - back.length).fill('0')
  return [...front, ...middle, ...back]
    .map((group) => Number.parseInt(group, 16).toString(2).padStart(16, '0'))
    .join('')
}
const inside = (cidr: string | undefined, address: string): boolean => {
  if (cidr === undefined) return true
  const [network = '', length] = cidr.split('/')
  if (isIPv6(network) !== isIPv6(address)) return false
  const [a, b] = [bits(network), bits(address)]
  return a.slice(0, Number(length ?? a.length)) === b.slice(0, Number(length ?? b.length))
}

/** The second opinion. */
function expected(rule: Input, seen: Seen): boolean {
  const protocols: Record<string, number> = { icmp: ICMP, tcp: TCP, udp: UDP }
  const ported = rule.source_port !== undefined || rule.dest_port !== undefined
  const conditions = [
    rule.protocol === undefined || protocols[rule.protocol] === seen.protocol,
    rule.protocol !== 'icmp' || seen.family === 4,
    !ported || seen.protocol === TCP || seen.protocol === UDP,
    rule.source_port === undefined || seen.sport === rule.source_port,
    rule.dest_port === undefined || seen.dport >= rule.dest_port,
    rule.dest_port === undefined || seen.dport <= (rule.dest_port_max ?? rule.dest_port),
    inside(rule.source_ip, seen.src),
    inside(rule.dest_ip, seen.dst),
    rule.interface === undefined || seen.interface === rule.interface,
    rule.mac === undefined || seen.mac === rule.mac.toLowerCase().replaceAll('-', ':'),
  ]
  return conditions.every(Boolean)
}

const four = fc.constantFrom('10.0.0.1', '10.200.0.1', '192.0.2.7', '192.0.2.8', '8.8.8.8')
const sixes = fc.constantFrom('fd00::1', 'fd00:0:0:1::9', '2001:db8:ffff::1', '2001:db9::1', '::1')
const port = fc.constantFrom(0, 1, 53, 80, 81, 100, 180, 65_535)
const seen: fc.Arbitrary<Seen> = fc
  .record({
    six: fc.boolean(),
    protocol: fc.constantFrom(ICMP, TCP, UDP, GRE, ICMPV6),
    four: fc.tuple(four, four),
    sixes: fc.tuple(sixes, sixes),
    sport: port,
    dport: port,
    interface: fc.option(fc.constantFrom('eth0', 'br-work'), { nil: undefined }),
    mac: fc.option(fc.constantFrom('02:00:00:00:00:0a', '02:00:00:00:00:0b'), { nil: undefined }),
  })
  .map(({ six, four, sixes, protocol, sport, dport, interface: device, mac }) => {
    const [src, dst] = six ? sixes : four
    return {
      family: six ? 6 : 4,
      protocol,
      src,
      dst,
      sport,
      dport,
      ...(device && { interface: device }),
      ...(mac && { mac }),
    }
  })

/** Fewer conditions than `input` has, so that many of them match. */
const loose = fc
  .tuple(input, fc.subarray(['protocol', 'source_ip', 'dest_ip', 'ports', 'interface', 'mac'], { maxLength: 3 }))
  .map(([rule, kept]) => {
    const keep = new Set<string>([
      ...kept,
      'action',
      ...(kept.includes('ports') ? ['source_port', 'dest_port', 'dest_port_max'] : []),
    ])
    // The action is among what is kept.
    return Object.fromEntries(Object.entries(rule).filter(([key]) => keep.has(key))) as unknown as Input
  })

t.test('any rule and any connection: as the second opinion says', async (t) => {
  const counts = { match: 0, other: 0 }
  fc.assert(
    fc.property(loose, fc.array(seen, { minLength: 20, maxLength: 20 }), (rule, all) => {
      const stored = row(rule)
      for (const one of all) {
        const opinion = expected(rule, one)
        counts[opinion ? 'match' : 'other']++
        if (matches(stored, one) !== opinion) return false
      }
      return true
    }),
    { numRuns: 400 },
  )
  t.ok(counts.match > 500 && counts.other > 500, `control: ${counts.match} matches, ${counts.other} others`)
})
