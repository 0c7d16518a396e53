/**
 * Changes of rules that must not change what happens to some packets, whatever else they do: those that decide none of
 * them come and go, and those that do are replaced at one instant by others that say the same of them.
 */
import type { FilterMatch, FilterRule } from '../../dataplane/bpf/firewall/entries.ts'
import { prefixOf } from './address.ts'
import { ADVERSARIES } from './adversarial.ts'
import type { Dice } from './dice.ts'
import type { RulePassage } from './ours.ts'
import { type Packet, PROTOCOLS, packets } from './packets.ts'
import { linear, matcher, reference } from './reference.ts'
import { mixed, rule } from './rulesets.ts'

export interface Churn {
  /** What is there at first. */
  rules: FilterRule[]
  mustAccept: Packet[]
  mustDrop: Packet[]
  /** Changes to at most `most` rules; they have been taken for made. */
  next(most: number): RulePassage[]
  /** What is there now. */
  present(): FilterRule[]
}

/** Above the ids of any list. */
const OWN_IDS = 10_000_000
/** Packets of each verdict. */
const EACH = 1000
/** Rules that are replaced all the time, half of them accepting. */
const MOVING = 32
/** Rules of each adversarial list. */
const STRANGE = 300

/** With `count` rules at first; the default is deny. */
export function churn(draw: Dice, count: number, seed: number): Churn {
  const base = mixed(count, seed)
  const decide = reference(base)
  const list = packets(base, EACH * 8, seed)
  const mine = Array.from({ length: MOVING }, (_, n) => moving(n))
  const unjudged = (packet: Packet) => decide(packet) === undefined
  if (!mine.every(({ packet }) => unjudged(packet))) throw new Error('a rule matches what the moving rules are for')
  const accepted = list.filter((packet) => decide(packet)?.accept).slice(0, EACH)
  const dropped = list.filter((packet) => !decide(packet)?.accept).slice(0, EACH)
  const judged = [...accepted, ...dropped, ...mine.map(({ packet }) => packet)]
  const deciding = new Set(judged.map(decide))
  const idle = base.filter((one) => !deciding.has(one))
  const strange = ADVERSARIES.flatMap(({ make }, n) => make(STRANGE, seed + n))
    .filter(({ match }) => !judged.some(matcher(match)))
    .map((one, n) => ({ ...one, ...named(OWN_IDS + n), rank: [one.rank[0], one.rank[1], OWN_IDS + n] as const }))
  const fixed = mine.flatMap(({ below }) => below)
  const there = new Map([...base, ...fixed, ...mine.map(({ first }) => first)].map((one) => [one.key, one]))
  const toggled = (one: FilterRule): RulePassage => {
    if (there.delete(one.key)) return { before: one }
    there.set(one.key, one)
    return { after: one }
  }
  const replaced = (own: Moving): RulePassage => {
    const after = own.other(draw)
    const before = there.get(after.key)
    there.set(after.key, after)
    return { after, ...(before && { before }) }
  }
  return {
    rules: [...there.values()],
    mustAccept: [...accepted, ...mine.filter(({ first }) => first.accept).map(({ packet }) => packet)],
    mustDrop: [...dropped, ...mine.filter(({ first }) => !first.accept).map(({ packet }) => packet)],
    next(most) {
      const changes = new Map<string, RulePassage>()
      for (let n = draw.between(1, most); n > 0; n--) {
        const change = draw.weighed<() => [string, () => RulePassage]>([
          [() => keyed(draw.pick(idle), toggled), 6],
          [() => keyed(draw.pick(strange), toggled), 3],
          [() => keyed(draw.pick(mine), replaced), 1],
        ])()
        if (!changes.has(change[0])) changes.set(change[0], change[1]())
      }
      return [...changes.values()]
    },
    present: () => [...there.values()],
  }
}

const keyed = <T extends { key: string }>(one: T, change: (one: T) => RulePassage): [string, () => RulePassage] => [
  one.key,
  () => change(one),
]

const named = (id: number) => ({ id, key: `firewall/${id}` })

interface Moving {
  key: string
  packet: Packet
  first: FilterRule
  /** What stands below a rule that drops, so that its absence would show. */
  below: FilterRule[]
  other(draw: Dice): FilterRule
}

/** Nobody else's network. */
const NETWORK = (100 << 24) | (64 << 16)
const UDP_PORT = 5000

function moving(n: number): Moving {
  const id = 2 * OWN_IDS + n
  const dest = [NETWORK | (n << 8) | 7] as const
  const source = [(21 << 24) | n] as const
  const port = UDP_PORT + n
  const matches: FilterMatch[] = [
    { dest: prefixOf(dest, 32) },
    { dest: prefixOf(dest, 25), protocol: 'udp' },
    { dest: prefixOf(dest, 32), source: prefixOf(source, 31), protocol: 'udp', destPorts: [port, port] },
    { dest: prefixOf(dest, 24), destPorts: [port, port + n] },
    { dest: prefixOf(dest, 27), sourcePort: 9999 },
    { source: prefixOf(source, 32), dest: prefixOf(dest, 29), interface: 'in0' },
  ]
  const accept = n % 2 === 0
  const variant = (match: FilterMatch, level: number, priority: number): FilterRule => ({
    ...rule(id, [level, priority], accept, match),
  })
  const below = rule(3 * OWN_IDS + n, [5, 1_000_000], true, { dest: prefixOf(dest, 24) })
  const packet = { source, dest, protocol: PROTOCOLS.udp, sourcePort: 9999, destPort: port, interface: 'in0' }
  return {
    key: `firewall/${id}`,
    packet: { ...packet, family: 4, ident: 0, mac: '02:ab:00:00:00:01' },
    first: variant(matches[0] ?? {}, 0, 0),
    below: accept ? [] : [below],
    other: (draw) => variant(draw.pick(matches), draw.between(0, 5), draw.between(0, 999)),
  }
}

/** Throws unless the verdicts hold for what is there now: a test of the test. */
export function assertHolds({ mustAccept, mustDrop, present }: Churn): void {
  const decide = linear(present())
  const wrong = [...mustAccept.filter((one) => !decide(one)?.accept), ...mustDrop.filter((one) => decide(one)?.accept)]
  if (wrong.length > 0) throw new Error(`the changes themselves change the verdict of ${wrong.length} packets`)
}
