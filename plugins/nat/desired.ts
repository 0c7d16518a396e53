/** Rows → entries of table `inet stratum`. Pure. */
import type { Db, Desired } from '../../core/area.ts'
import type { Config } from '../../core/config.ts'
import { type Chain, type Entry, forwarding, type SetElement } from '../../dataplane/entry.ts'
import { maskText, type Prefix, parsePrefix, quotedInterface } from '../../dataplane/nft/text.ts'
import { STAMP, STAMP_MASK, STAMP_NET } from '../../dataplane/numbers.ts'
import { INSIDE } from '../networks/offers.ts'
import { wider } from './address.ts'
import { everyRule, FORWARD, queries } from './queries.ts'
import {
  BETWEEN,
  forwards,
  OUTPUT,
  POSTROUTING,
  PREROUTING,
  publics,
  sources,
  TURN,
  TURN_OUTPUT,
  TURNED,
} from './skeleton.ts'
import type { Row } from './tables.ts'

const AREA = 'nat'
const chain = (name: string, rules: readonly string[]): Chain => ({
  kind: 'chain',
  key: `${AREA}/${name}`,
  chain: name,
  rules,
})

/** nft takes a port out of a header only where the rule says of which protocol. */
const each = (rule: (proto: 'tcp' | 'udp', ip: 'ip' | 'ip6', family: 4 | 6) => string) =>
  (['tcp', 'udp'] as const).flatMap((proto) => [rule(proto, 'ip', 4), rule(proto, 'ip6', 6)])
const translated = each((proto, ip, family) => `dnat ${ip} to ${ip} daddr . ${proto} dport map @${forwards(family)}`)
/** A new connection that one of our forwards has just translated; what others translate is theirs. */
const turned = (when: string) =>
  each((proto, ip, family) =>
    [
      `ct state new ct status dnat meta l4proto ${proto}`,
      `ct original ${ip} daddr . ct original proto-dst @${publics(family)}`,
      `${when} add @${TURNED} { ct id }`,
    ].join(' '),
  )

const CHAINS: readonly Chain[] = [
  chain(PREROUTING, translated),
  chain(OUTPUT, translated),
  // The way to the target leads out of the device that the packet came in by: the target would answer past the node.
  chain(TURN, turned('fib daddr . iif oif exists')),
  // The node took the public address as its source, to which the target may know another way.
  chain(TURN_OUTPUT, turned('fib daddr type != local')),
  // Without the stamp the program on br-work takes a packet for one from outside, which may go to any network. Networks are IPv4.
  chain(BETWEEN, [
    `meta mark & ${maskText(STAMP_MASK)} != ${maskText(STAMP)} return`,
    `meta mark & ${maskText(STAMP_NET)} == 0 return`,
    ...(['tcp', 'udp'] as const).map(
      (proto) =>
        `ct status dnat meta l4proto ${proto} ct original ip daddr . ct original proto-dst @${publics(4)} meta mark set 0`,
    ),
    // An error about such a connection: nft does not tell the ports of a connection where the packet is of another protocol.
    'ct status dnat ct state related meta l4proto icmp meta mark set 0',
  ]),
  chain(POSTROUTING, [
    `ct id @${TURNED} masquerade`,
    // Networks of the node are IPv4 (D62).
    `oifname . ip saddr @${sources(4)} ip daddr != @${INSIDE} masquerade`,
    `oifname . ip6 saddr @${sources(6)} masquerade`,
  ]),
]

/** Ids of refs: `forward/<id>`, `snat/<interface>/<cidr>`. */
export const forwardRef = (id: number) => ({ area: AREA, id: `forward/${id}` })
export const snatRef = (row: Pick<Row, 'interface' | 'cidr'>) => ({
  area: AREA,
  id: `snat/${row.interface}/${row.cidr}`,
})

export const desired: Desired = {
  *all(db, config) {
    yield* CHAINS
    for (const row of everyRule(db)) yield* row.type === FORWARD ? forwardEntries(row, config) : snatEntries(db, row)
  },
  one(db, id, config) {
    const [kind = '', name = '', ...rest] = id.split('/')
    if (kind === 'forward') return forwardEntries(queries(db).byId.get({ id: Number(name) }), config)
    return snatEntries(db, queries(db).snatOf.get({ interface: name, cidr: rest.join('/') }))
  },
}

function forwardEntries(row: Row | undefined, config: Config): Entry[] {
  if (row === undefined) return []
  const { id, family, destIp, destPort, targetIp, targetPort } = row
  const [public_, target] = [hostAndPort(destIp, destPort), hostAndPort(targetIp, targetPort)]
  const uplink = config.text('uplink')
  return [
    element(forwards(family), public_, target),
    element(publics(family), public_),
    ...(uplink === '' || family === 6 ? [] : [forwarding(AREA, uplink, `port forward ${id} of ${destIp}:${destPort}`)]),
  ]
}

/** In an interval set no element may be added within another, so of blocks in each other only the outermost stands there. */
function snatEntries(db: Db, row: Row | undefined): Entry[] {
  if (row === undefined) return []
  const block = certain(row.cidr)
  const around = queries(db).snatAmong.get({ interface: row.interface, cidrs: JSON.stringify(wider(block)) })
  if (around) return []
  const translated = element(sources(block.family), `${quotedInterface(row.interface)} . ${block.text}`)
  // Answers come in by it. For IPv6 it is one setting of the whole node, which also ends its listening to routers.
  const holder = `source NAT rule ${row.id} of ${block.text}`
  return [translated, forwarding(AREA, row.interface, holder, block.family)]
}

const hostAndPort = (address: string, port: number): string => `${certain(address).text} . ${port}`

const element = (set: string, text: string, value?: string): SetElement => ({
  kind: 'element',
  key: `${AREA}/${set}/${text}`,
  set,
  element: text,
  ...(value !== undefined && { value }),
})

/** Parsed once more, so that only canonical text gets out. */
function certain(text: string): Prefix {
  const parsed = parsePrefix(text)
  if (parsed === undefined) throw new TypeError('a stored value cannot be read: the row was changed behind the agent')
  return parsed
}
