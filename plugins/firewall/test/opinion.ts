/** A second opinion on which rule decides a packet, which compares addresses bit by bit and uses nothing of the area's code. */
import { isIPv6 } from 'node:net'
import { fc } from '../../../test/property.ts'
import { type Input, inOrder, type ModelRule, type Window } from './model.ts'

export const [ICMP, TCP, UDP, GRE, ICMPV6] = [1, 6, 17, 47, 58]

export interface Seen {
  family: 4 | 6
  protocol: number
  src: string
  dst: string
  sport: number
  dport: number
  interface?: string
  mac?: string
}

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

/** Whether a rule matches a packet, its window aside. */
export function expected(rule: Input, seen: Seen): boolean {
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
/** Packets near to what rules of the model name. */
export const seen: fc.Arbitrary<Seen> = fc
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

/** The rule that decides at that time; undefined: none. */
export const decider = (rules: readonly ModelRule[], packet: Seen, at: Date): ModelRule | undefined =>
  inOrder(rules).find(({ input, window }) => expected(input, packet) && (!window || inForce(window, at)))

function inForce({ from, to, daily }: Window, at: Date): boolean {
  if (!daily) return at >= new Date(from) && at.getTime() < new Date(to).getTime() + 1000
  const clock = at.toISOString().slice(11, 19)
  const [start, end] = [`${from}:00`, `${to}:00`]
  return start < end ? clock >= start && clock <= end : clock >= start || clock <= end
}
