/**
 * What the rules say about a packet: the first that matches, by rank. The judge of every other implementation, so it is
 * written to be certain, not fast. The index only leaves out rules that ask for another network, MAC or port.
 */
import type { FilterMatch, FilterRule } from '../../dataplane/bpf/firewall/entries.ts'
import type { Prefix } from '../../dataplane/nft/text.ts'
import { maskOf, type Words, wordsOf } from './address.ts'
import { type Packet, PROTOCOLS } from './packets.ts'

export type Decide = (packet: Packet) => FilterRule | undefined

type Test = (packet: Packet) => boolean

export function byRank(a: FilterRule, b: FilterRule): number {
  return a.rank[0] - b.rank[0] || a.rank[1] - b.rank[1] || a.rank[2] - b.rank[2]
}

/** Rule by rule, without an index. Windows of time are not looked at. */
export function linear(rules: readonly FilterRule[]): Decide {
  const ordered = [...rules].sort(byRank).map((rule) => ({ rule, matches: matcher(rule.match) }))
  return (packet) => ordered.find(({ matches }) => matches(packet))?.rule
}

/** The same, for so many rules that nobody could wait. */
export function reference(rules: readonly FilterRule[]): Decide {
  const shelves = new Map<string, { rule: FilterRule; matches: Test }[]>()
  for (const rule of [...rules].sort(byRank)) {
    const { source, dest, mac = ANY, destPorts } = rule.match
    const port = destPorts && destPorts[0] === destPorts[1] ? destPorts[0] : ANY
    const at = `${headOfPrefix(source)} ${headOfPrefix(dest)} ${mac} ${port}`
    const shelf = shelves.get(at)
    const entry = { rule, matches: matcher(rule.match) }
    if (shelf) shelf.push(entry)
    else shelves.set(at, [entry])
  }
  return (packet) => {
    let first: FilterRule | undefined
    for (const at of shelvesOf(packet)) {
      const found = shelves.get(at)?.find(({ matches }) => matches(packet))?.rule
      if (found && (first === undefined || byRank(found, first) < 0)) first = found
    }
    return first
  }
}

/** Where the rules are that a packet may match: each of four things is the packet's own, or left open by the rule. */
function* shelvesOf({ source, dest, mac, destPort }: Packet): Generator<string> {
  for (const from of [headOf(source), ANY])
    for (const to of [headOf(dest), ANY])
      for (const who of [mac, ANY]) for (const port of [destPort, ANY]) yield `${from} ${to} ${who} ${port}`
}

/** All that a rule asks of a packet. */
export function matcher(match: FilterMatch): Test {
  const { protocol, sourcePort, destPorts, interface: device, mac } = match
  const tests: Test[] = []
  if (match.source) tests.push(within(match.source, (packet) => packet.source))
  if (match.dest) tests.push(within(match.dest, (packet) => packet.dest))
  if (protocol) tests.push((packet) => packet.protocol === PROTOCOLS[protocol])
  if (protocol === 'icmp') tests.push((packet) => packet.family === 4)
  if (sourcePort !== undefined || destPorts !== undefined) tests.push(ported)
  if (sourcePort !== undefined) tests.push((packet) => packet.sourcePort === sourcePort)
  if (destPorts !== undefined) {
    const [low, high] = destPorts
    tests.push((packet) => packet.destPort >= low && packet.destPort <= high)
  }
  if (device !== undefined) tests.push((packet) => packet.interface === device)
  if (mac !== undefined) tests.push((packet) => packet.mac === mac)
  return (packet) => tests.every((test) => test(packet))
}

const ported: Test = ({ protocol }) => protocol === PROTOCOLS.tcp || protocol === PROTOCOLS.udp

function within(prefix: Prefix, address: (packet: Packet) => Words): Test {
  const wanted = wordsOf(prefix)
  const masks = wanted.map((_, index) => maskOf(prefix.length, index))
  return (packet) => {
    const words = address(packet)
    if (words.length !== wanted.length) return false
    for (let n = 0; n < wanted.length; n++) {
      if (((words[n] ?? 0) & (masks[n] ?? 0)) >>> 0 !== wanted[n]) return false
    }
    return true
  }
}

const ANY = '*'
/** How many leading bits the index goes by. */
const HEAD = { 1: 16, 4: 32 } as const

function headOf(words: Words): string {
  const [first = 0] = words
  return words.length === 1 ? `4:${first >>> 16}` : `6:${first}`
}

function headOfPrefix(prefix: Prefix | undefined): string {
  if (prefix === undefined) return ANY
  const words = wordsOf(prefix)
  return prefix.length < (words.length === 1 ? HEAD[1] : HEAD[4]) ? ANY : headOf(words)
}
