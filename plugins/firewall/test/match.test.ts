/** Whether a rule matches a connection, against a second opinion that compares addresses bit by bit. */

import t from 'tap'
import { fc } from '../../../test/property.ts'
import { flowOf, predicate } from '../match.ts'
import { readInput } from '../rules.ts'
import { NO_SCHEDULE, parseSchedule } from '../schedule.ts'
import type { RuleInput } from '../schemas.ts'
import type { Row } from '../tables.ts'
import { type Input, input } from './model.ts'
import { expected, GRE, ICMP, ICMPV6, type Seen, seen, TCP, UDP } from './opinion.ts'

const NOW = new Date('2030-01-01T12:00:00Z')

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
