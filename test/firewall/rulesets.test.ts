import t from 'tap'
import { type FilterRule, filterFingerprint } from '../../dataplane/bpf/firewall/entries.ts'
import { ADVERSARIES } from './adversarial.ts'
import { mixed, tame } from './rulesets.ts'

const MAKERS = [{ name: 'mixed', make: mixed }, { name: 'tame', make: tame }, ...ADVERSARIES]

/** Share of the rules for which `holds`. */
const share = (rules: readonly FilterRule[], holds: (rule: FilterRule) => unknown) =>
  rules.filter(holds).length / rules.length

t.test('a seed makes the same rules again, another seed others', async (t) => {
  for (const { name, make } of MAKERS) {
    const text = (seed: number) => make(200, seed).map(filterFingerprint)
    t.same(text(1), text(1), name)
    if (name !== 'accept and drop in turn') t.not(text(1).join(), text(2).join(), name)
  }
})

t.test('rules are as the entries promise', async (t) => {
  for (const { name, make } of MAKERS) {
    const rules = make(1000, 7)
    t.ok(rules.length >= 1000, name)
    t.equal(new Set(rules.map(({ id }) => id)).size, rules.length, 'ids differ')
    t.equal(new Set(rules.map(({ key }) => key)).size, rules.length, 'keys differ')
    t.equal(new Set(rules.map(({ rank }) => rank.join())).size, rules.length, 'ranks differ')
    t.ok(
      rules.every(({ id, rank: [level, priority, tie] }) => id > 0 && level < 8 && priority < 2 ** 20 && tie < 2 ** 41),
      'and are in range',
    )
    t.ok(
      rules.every(({ match: { source, dest } }) => !source || !dest || source.family === dest.family),
      'no rule is of two families',
    )
    t.ok(
      rules.every(({ match: { destPorts, sourcePort = 1 } }) => {
        const [low, high] = destPorts ?? [1, 1]
        return sourcePort >= 1 && sourcePort <= 65_535 && low >= 1 && low <= high && high <= 65_535
      }),
      'ports are ports',
    )
  }
})

t.test('a mixed list has the shares of a large installation', async (t) => {
  const rules = mixed(10_000, 3)
  const near = (holds: (rule: FilterRule) => unknown, wanted: number, what: string) => {
    const found = share(rules, holds)
    t.ok(Math.abs(found - wanted) < 0.02, `${what}: ${found.toFixed(3)}, wanted ${wanted}`)
  }
  const host = (prefix?: { family: number; length: number }) => prefix?.length === (prefix?.family === 4 ? 32 : 128)
  const family = ({ match: { source, dest } }: FilterRule) => source?.family ?? dest?.family
  const one = (destPorts?: readonly [number, number]) => destPorts && destPorts[0] === destPorts[1]
  near((rule) => family(rule) === 6, 0.09, 'IPv6')
  near((rule) => family(rule) === undefined, 0.047, 'both families')
  near(({ match }) => match.mac, 0.04, 'MAC')
  near(({ match }) => match.interface, 0.04, 'device')
  near(({ match }) => match.protocol === 'icmp', 0.03, 'ICMP')
  near(({ match }) => match.destPorts && !one(match.destPorts), 0.1, 'ranges')
  near(({ match }) => match.source && !match.dest && !match.mac, 0.08, 'sources alone')
  near(({ match }) => match.sourcePort, 0.1, 'source ports')
  near(
    ({ match }) => match.protocol && host(match.source) && host(match.dest) && one(match.destPorts),
    0.33,
    'one flow',
  )
  near(({ accept }) => accept, 0.56, 'accepting')
})

t.test('the pairs of lengths are all there', async (t) => {
  const pairs = ADVERSARIES.find(({ name }) => name === 'all pairs of lengths')?.make(0, 1) ?? []
  t.equal(new Set(pairs.map(({ match }) => `${match.source?.length} ${match.dest?.length}`)).size, 33 * 33)
})
