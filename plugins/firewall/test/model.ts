/**
 * The specification once more, in the plainest way: a list of rules, what REST shows of them, in which order packets meet
 * them, and how nft prints them. Nothing of the area's code is used here.
 */
import { fc } from '../../../test/property.ts'

export interface Input {
  action: string
  priority?: number
  protocol?: string
  source_ip?: string
  dest_ip?: string
  source_port?: number
  dest_port?: number
  dest_port_max?: number
  interface?: string
  mac?: string
  level?: string
  comment?: string
}
export interface Window {
  from: string
  to: string
  daily?: boolean
}
export interface ModelRule {
  id: number
  /** Place among equals: the id of the first rule in a line of replacements. */
  place: number
  input: Input
  window?: Window | undefined
}

const LEVELS = ['global', 'bridge', 'vlan', 'private_network', 'mac', 'flow']
const levelOf = ({ level }: Input) => (level === 'interface' ? 'bridge' : level || 'global')

/** As given and as shown. */
const FOUR: [string, string][] = [
  ['10.0.0.0/8', '10.0.0.0/8'],
  ['10.200.3.4/9', '10.128.0.0/9'],
  ['192.0.2.7/32', '192.0.2.7'],
  ['0.0.0.0/0', '0.0.0.0/0'],
]
const SIX: [string, string][] = [
  ['FD00::1', 'fd00::1'],
  ['fd00:0:0:1::5/64', 'fd00:0:0:1::/64'],
  ['2001:DB8::/32', '2001:db8::/32'],
  ['::/0', '::/0'],
]
const CANONICAL = new Map([...FOUR, ...SIX])
const canonical = (text: string) => CANONICAL.get(text) ?? text
const six = (text: string | undefined) => text?.includes(':') === true

/** Rules in the order in which packets meet them. */
export function inOrder(rules: readonly ModelRule[]): ModelRule[] {
  const key = ({ input, place }: ModelRule) => [LEVELS.indexOf(levelOf(input)), input.priority ?? 0, place] as const
  return [...rules].sort((a, b) => {
    const [x, y] = [key(a), key(b)]
    return x[0] - y[0] || x[1] - y[1] || x[2] - y[2]
  })
}

/** As REST shows it. */
export function shown({ id, input }: ModelRule): Record<string, unknown> {
  const { action, priority = 0, source_ip, dest_ip, mac, level: _, ...rest } = input
  return {
    ...rest,
    ...(source_ip && { source_ip: canonical(source_ip) }),
    ...(dest_ip && { dest_ip: canonical(dest_ip) }),
    ...(mac && { mac: mac.toLowerCase().replaceAll('-', ':') }),
    id,
    chain: 'prerouting',
    priority,
    action,
    stateful: true,
    level: levelOf(input),
  }
}

/** As `nft list` prints it, times in UTC. */
export function printed({ input, window }: ModelRule): string {
  const { protocol = '', source_ip, dest_ip, source_port, dest_port, dest_port_max = 0, mac } = input
  const ported = protocol === '' ? 'th' : protocol
  const top = dest_port !== undefined && dest_port_max > dest_port ? `-${dest_port_max}` : ''
  const anyPort = source_port !== undefined || dest_port !== undefined
  // nft compares two neighbouring fields in one go, and without a protocol it cannot print them apart again.
  const merged = protocol === '' && source_port !== undefined && dest_port !== undefined && top === ''
  return [
    input.interface && `iifname "${input.interface}"`,
    mac && `ether saddr ${mac.toLowerCase().replaceAll('-', ':')}`,
    source_ip && `${six(source_ip) ? 'ip6' : 'ip'} saddr ${canonical(source_ip)}`,
    dest_ip && `${six(dest_ip) ? 'ip6' : 'ip'} daddr ${canonical(dest_ip)}`,
    protocol === 'icmp' && 'ip protocol icmp',
    protocol === '' && anyPort && 'meta l4proto { tcp, udp }',
    (protocol === 'tcp' || protocol === 'udp') && !anyPort && `meta l4proto ${protocol}`,
    ...(merged
      ? [`@th,0,32 0x${(source_port * 65_536 + dest_port).toString(16)}`]
      : [
          source_port !== undefined && `${ported} sport ${source_port}`,
          dest_port !== undefined && `${ported} dport ${dest_port}${top}`,
        ]),
    window && printedWindow(window),
    input.action,
  ]
    .filter((part) => typeof part === 'string' && part !== '')
    .join(' ')
}

function printedWindow({ from, to, daily }: Window): string {
  const plain = (text: string) => `"${text.replace('T', ' ').replace('Z', '')}"`
  if (!daily) return `meta time ${plain(from)}-${plain(to)}`
  if (from < to) return `meta hour "${from}"-"${to}"`
  return `meta hour { ${to === '00:00' ? '"00:00"' : `"00:00"-"${to}"`}, "${from}"-"23:59:59" }`
}

const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined })
const port = fc.oneof(fc.constantFrom(1, 53, 80, 65_535), fc.integer({ min: 1, max: 65_535 }))

/** Bodies that must be accepted, of every kind. */
export const input: fc.Arbitrary<Input> = fc
  .record({
    action: fc.constantFrom('accept', 'drop'),
    priority: optional(fc.oneof(fc.integer({ min: 1, max: 5 }), fc.constant(1_000_000))),
    protocol: optional(fc.constantFrom('tcp', 'udp', 'icmp')),
    family: fc.constantFrom(FOUR, SIX),
    source: optional(fc.nat(3)),
    dest: optional(fc.nat(3)),
    source_port: optional(port),
    dest_port: optional(port),
    span: optional(fc.nat(100)),
    interface: optional(fc.constantFrom('eth0', 'br-work', 'eth1.100')),
    mac: optional(fc.constantFrom('02:00:00:00:00:0a', '02-00-00-00-00-0B')),
    level: optional(fc.constantFrom(...LEVELS, 'interface')),
    comment: optional(fc.constantFrom('plain', 'with "quotes" and ; } drop', 'ünïcode')),
  })
  .map(({ family, source, dest, span, source_port, dest_port, ...rest }) => {
    const icmp = rest.protocol === 'icmp'
    const addresses = icmp ? FOUR : family
    const ports = {
      source_port,
      dest_port,
      ...(span !== undefined && dest_port && { dest_port_max: dest_port + span }),
    }
    const fits = (ports.dest_port_max ?? 0) <= 65_535
    const all = {
      ...rest,
      source_ip: source === undefined ? undefined : addresses[source]?.[0],
      dest_ip: dest === undefined ? undefined : addresses[dest]?.[0],
      ...(!icmp && fits && ports),
    }
    return withoutUndefined(all)
  })

/** What JSON would leave out as well. */
function withoutUndefined<T extends object>(value: T): Input {
  // The required field `action` is always there.
  return Object.fromEntries(Object.entries(value).filter(([, part]) => part !== undefined)) as unknown as Input
}

export const window: fc.Arbitrary<Window> = fc.constantFrom(
  { from: '2001-01-01T00:00:00Z', to: '2037-12-31T23:59:59Z' },
  { from: '2030-06-01T12:00:00Z', to: '2030-06-01T12:00:01Z' },
  { from: '08:00', to: '17:30', daily: true },
  { from: '22:00', to: '06:00', daily: true },
  { from: '00:00', to: '23:59', daily: true },
)
