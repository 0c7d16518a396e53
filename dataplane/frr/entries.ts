/**
 * What bgpd shall hold, as keyed entries of statements. Made from parsed values only: a line of FRR's configuration has no quoting, so
 * nothing of free text may reach it. Names of lists and maps follow from what is in them: a changed one has another name, and
 * whoever uses it goes over to it with one command.
 */
import { createHash } from 'node:crypto'
import { communityNumber, communitySet } from './communities.ts'
import type { Statement } from './statements.ts'
import { statementText } from './statements.ts'

export const BGP_KINDS = ['bgp_instance', 'bgp_neighbor', 'bgp_network', 'bgp_route_map', 'bgp_prefix_list'] as const
export type BgpKind = (typeof BGP_KINDS)[number]

export interface BgpEntry {
  kind: BgpKind
  key: string
  statements: readonly Statement[]
}

/** The speaker of one AS. That of the node installs what it learns in the kernel; a view beside it only hears and tells. */
export interface Speaker {
  as: number
  view: boolean
}

export interface NeighborFields {
  speaker: Speaker
  address: string
  remoteAs: number
  /** The AS that it sees us as. */
  localAs: number
  /** Seconds. */
  holdTime: number
  keepalive: number
  /** TCP-MD5 (RFC 2385); '' is none. */
  password: string
  bfd?: { intervalMs: number; multiplier: number } | undefined
  /** Names of route-maps by family; '' is none. */
  import: Families<string>
  export: Families<string>
}

export type Families<T> = Readonly<Record<4 | 6, T>>
export const FAMILIES = [4, 6] as const

/** A line of a prefix-list; `ge` and `le` 0 are absent. */
export interface PrefixRule {
  permit: boolean
  prefix: string
  ge: number
  le: number
}

export interface MapRule {
  /** 1 to 65535. */
  seq: number
  permit: boolean
  match?: { list: string; family: 4 | 6 } | { tag: number } | undefined
  set?: MapSettings | undefined
  /** Name of a map that must permit, too. */
  call?: string | undefined
}
export interface MapSettings {
  localPref?: number | undefined
  med?: number | undefined
  /** Replace those that were there. */
  communities?: readonly string[] | undefined
  tag?: number | undefined
  nextHop?: { family: 4 | 6; address: string } | undefined
}

const AREA = 'bgp'
/** Of D79; RFC 4271 §8.2.1.1 suggests 120 s. */
const CONNECT_RETRY = 5
/** More of one neighbor end its session (D83). */
export const MAX_PREFIXES = 1_000_000

const key = (kind: BgpKind, name: string | number): string => `${AREA}/${kind.slice('bgp_'.length)}/${name}`

export const bgpInstance = (speaker: Speaker, routerId: string): BgpEntry => {
  const line = routerLine(speaker)
  const settings = [
    `bgp router-id ${certain(ADDRESS, routerId)}`,
    // Without policy everything is permitted (D82), also where RFC 8212 would have it otherwise.
    'no bgp ebgp-requires-policy',
    'no bgp default ipv4-unicast',
    'coalesce-time 0',
    'bgp graceful-restart',
    'bgp graceful-restart preserve-fw-state',
    'no bgp network import-check',
    // A session that came up before its families are known would be refused by the peer.
    'bgp default shutdown',
  ]
  return {
    kind: 'bgp_instance',
    key: key('bgp_instance', speaker.as),
    statements: [{ in: [], line }, ...settings.map((setting) => ({ in: [line], line: setting }))],
  }
}

export function bgpNeighbor(fields: NeighborFields): BgpEntry {
  const { speaker, remoteAs, localAs, holdTime, keepalive, password, bfd } = fields
  const router = routerLine(speaker)
  const address = certain(ADDRESS, fields.address)
  const lines = [
    `remote-as ${whole(remoteAs)}`,
    ...(localAs === speaker.as ? [] : [`local-as ${whole(localAs)} no-prepend replace-as`]),
    ...(password === '' ? [] : [`password ${certain(SECRET, password)}`]),
    `timers ${whole(keepalive)} ${whole(holdTime)}`,
    `timers connect ${CONNECT_RETRY}`,
    ...(bfd ? [bfdLine(bfd.multiplier, bfd.intervalMs, bfd.intervalMs)] : []),
  ]
  const ofFamily = (family: 4 | 6): Statement[] => {
    const [inward, outward] = [fields.import[family], fields.export[family]]
    return [
      'activate',
      'soft-reconfiguration inbound',
      `maximum-prefix ${MAX_PREFIXES}`,
      ...(inward === '' ? [] : [`route-map ${certain(NAME, inward)} in`]),
      ...(outward === '' ? [] : [`route-map ${certain(NAME, outward)} out`]),
    ].map((line) => ({ in: [router, familyLine(family)], line: `neighbor ${address} ${line}` }))
  }
  return {
    kind: 'bgp_neighbor',
    key: key('bgp_neighbor', address),
    statements: [
      ...lines.map((line) => ({ in: [router], line: `neighbor ${address} ${line}` })),
      ...FAMILIES.flatMap(ofFamily),
    ],
  }
}

/** What follows `neighbor <address> ` for BFD; times in ms. */
export const bfdLine = (multiplier: number, rx: number, tx: number): string =>
  `bfd ${whole(multiplier)} ${whole(rx)} ${whole(tx)}`

/** A prefix that a speaker tells its neighbors of, with what route-map `map` sets. */
export function bgpNetwork(speaker: Speaker, prefix: string, map: string): BgpEntry {
  const text = certain(PREFIX, prefix)
  return {
    kind: 'bgp_network',
    key: key('bgp_network', `${speaker.as}/${text}`),
    statements: [
      {
        in: [routerLine(speaker), familyLine(familyOf(text))],
        line: `network ${text} route-map ${certain(NAME, map)}`,
      },
    ],
  }
}

/** Its name follows from `id` and the rules. Whatever no rule permits is denied, in both families. */
export function bgpPrefixList(id: number, rules: readonly PrefixRule[]): BgpEntry & { name: string } {
  const name = nameOf('P', [id, rules])
  const each = rules.map((rule) => `${verdict(rule.permit)} ${certain(PREFIX, rule.prefix)}${bounds(rule)}`)
  // One that says what another has said is not kept by bgpd.
  const said = new Set(each)
  const lines = [...said].map((rule, at) => `${listWord(familyOf(rule))} ${name} seq ${at + 1} ${rule}`)
  // To FRR a list without any line permits everything.
  const end = ['deny 0.0.0.0/0 le 32', 'deny ::/0 le 128']
    .filter((rule) => !said.has(rule))
    .map((rule) => `${listWord(familyOf(rule))} ${name} seq ${LAST} ${rule}`)
  return {
    kind: 'bgp_prefix_list',
    key: key('bgp_prefix_list', name),
    name,
    statements: [...lines, ...end].map((line) => ({ in: [], line })),
  }
}

/** Its name follows from `id` and the rules. */
export function bgpRouteMap(id: string | number, rules: readonly MapRule[]): BgpEntry & { name: string } {
  return mapCalled(nameOf('M', [id, rules]), rules)
}

function mapCalled(name: string, rules: readonly MapRule[]): BgpEntry & { name: string } {
  return {
    kind: 'bgp_route_map',
    key: key('bgp_route_map', name),
    name,
    statements: rules.flatMap((rule) => {
      const header = `route-map ${name} ${verdict(rule.permit)} ${whole(rule.seq)}`
      return [{ in: [], line: header }, ...clauses(rule).map((line) => ({ in: [header], line }))]
    }),
  }
}

/**
 * A map of one neighbor's or several neighbors' way out: whatever `call` permits leaves, with the next hops that announcements with these tags
 * ask for. Its name does not follow from the next hops, so one more or less does not make anybody tell everything again.
 * (Set where the route is made, a next hop does not reach every neighbor.)
 */
export function bgpOutlet(
  call: string,
  family: 4 | 6,
  hops: readonly { tag: number; address: string }[],
): BgpEntry & { name: string } {
  const further = call === '' ? {} : { call }
  const rules = hops.map(({ tag, address }) => ({
    ...{ seq: tag, permit: true, match: { tag }, set: { nextHop: { family, address } } },
    ...further,
  }))
  return mapCalled(nameOf('M', ['outlet', call, family]), [...rules, { seq: LAST_SEQ, permit: true, ...further }])
}

function clauses({ match, set = {}, call }: MapRule): string[] {
  const { communities, localPref, med, nextHop, tag } = set
  const word = (family: 4 | 6) => (family === 4 ? 'ip' : 'ipv6')
  return [
    ...(match === undefined
      ? []
      : 'tag' in match
        ? [`match tag ${whole(match.tag)}`]
        : [`match ${word(match.family)} address prefix-list ${certain(NAME, match.list)}`]),
    ...(call === undefined ? [] : [`call ${certain(NAME, call)}`]),
    ...(communities === undefined
      ? []
      : [
          `set community ${communities.length === 0 ? 'none' : communitySet(communities.map((it) => certain(COMMUNITY, communityNumber(it)))).join(' ')}`,
        ]),
    ...(localPref === undefined ? [] : [`set local-preference ${whole(localPref)}`]),
    ...(med === undefined ? [] : [`set metric ${whole(med)}`]),
    ...(tag === undefined ? [] : [`set tag ${whole(tag)}`]),
    ...(nextHop === undefined
      ? []
      : [
          `set ${word(nextHop.family)} next-hop ${nextHop.family === 6 ? 'global ' : ''}${certain(ADDRESS, nextHop.address)}`,
        ]),
  ]
}

/** The entry that a statement of the running configuration is part of; undefined for what is FRR's own. */
export function entryOf({ in: [outer], line }: Statement): { kind: BgpKind; key: string } | undefined {
  const found = (kind: BgpKind, name = '') => ({ kind, key: key(kind, name) })
  const [first = '', second = '', third = ''] = line.split(' ')
  if (second === 'prefix-list' && (first === 'ip' || first === 'ipv6')) return found('bgp_prefix_list', third)
  const [, map] = /^route-map (\S+) /.exec(outer ?? line) ?? []
  if (map !== undefined) return found('bgp_route_map', map)
  const [, as] = /^router bgp (\d+)/.exec(outer ?? line) ?? []
  if (as === undefined) return undefined
  if (first === 'address-family') return undefined
  if (first === 'neighbor') return found('bgp_neighbor', second)
  if (first === 'network') return found('bgp_network', `${as}/${second}`)
  return found('bgp_instance', as)
}

export const isBgp = (entry: { kind: string }): entry is BgpEntry =>
  (BGP_KINDS as readonly string[]).includes(entry.kind)

/** Everything about an entry, as one comparable string; the order of the lines does not count. */
export const bgpFingerprint = ({ statements }: BgpEntry): string => statements.map(statementText).sort().join('\n\n')

export const routerLine = ({ as, view }: Speaker): string =>
  `router bgp ${whole(as)}${view ? ` view ${viewName(as)}` : ''}`
/** As bgpd calls it. */
export const viewName = (as: number): string => `as${whole(as)}`
export const familyLine = (family: 4 | 6): string => `address-family ipv${family} unicast`
const familyOf = (prefix: string): 4 | 6 => (prefix.includes(':') ? 6 : 4)

const LAST = 4_294_967_295
/** The highest number of a rule of a route-map. */
export const LAST_SEQ = 65_535
const listWord = (family: 4 | 6): string => `${family === 4 ? 'ip' : 'ipv6'} prefix-list`
const verdict = (permit: boolean): string => (permit ? 'permit' : 'deny')
/** Lengths from `ge` to `le`, in the one way that bgpd prints too. */
function bounds({ prefix, ge, le }: PrefixRule): string {
  const [length, longest] = [Number(prefix.split('/')[1]), familyOf(prefix) === 4 ? 32 : 128]
  const from = ge > 0 ? ge : length
  const to = le > 0 ? le : ge > 0 ? longest : length
  if (from > length) return to === longest ? ` ge ${whole(from)}` : ` ge ${whole(from)} le ${whole(to)}`
  return to > length ? ` le ${whole(to)}` : ''
}
const nameOf = (letter: string, content: unknown): string =>
  letter + createHash('sha256').update(JSON.stringify(content)).digest('hex').slice(0, 16)

const ADDRESS = /^[0-9a-f.:]{2,45}$/
const PREFIX = /^[0-9a-f.:]{2,45}\/[0-9]{1,3}$/
const NAME = /^[A-Z][0-9a-f]{16}$/
const COMMUNITY = /^[0-9]{1,5}:[0-9]{1,5}$/
/** Visible ASCII without blanks, at most 80 characters (TCP_MD5SIG_MAXKEYLEN of linux/tcp.h). */
const SECRET = /^[\x21-\x7e]{1,80}$/

/** Read once more, whatever an area gave. The value is not told: it may be a secret. */
function certain(shape: RegExp, text: string): string {
  if (!shape.test(text)) throw new TypeError(`a value that does not match ${shape.source} must not reach bgpd`)
  return text
}

function whole(value: number): string {
  if (!Number.isInteger(value) || value < 0 || value > LAST) throw new TypeError(`${value} is no number for bgpd`)
  return String(value)
}
