/** Rows → what the data plane holds. Pure. */
import type { Db, Desired, Ref } from '../../core/area.ts'
import type { Config } from '../../core/config.ts'
import { binding, type Claims, net } from '../../dataplane/bpf/port/entries.ts'
import { type Chain, type Entry, forwarding, type SetElement } from '../../dataplane/entry.ts'
import { address, neighbour, route } from '../../dataplane/netlink/entries.ts'
import { maskText, quotedInterface } from '../../dataplane/nft/text.ts'
import { ROUTED_NET_BASE, STAMP_NET, STAMP_ROUTED, WORK_BRIDGE } from '../../dataplane/numbers.ts'
import { guestChain } from './guests.ts'
import { type Block, blockText, ipText, lengthOf } from './ipv4.ts'
import { queries } from './queries.ts'
import { type EndpointWithClaim, everyBound, everyClaim, routedQueries } from './routed-queries.ts'
import { GATEWAYS, INPUT, INSIDE, OWN_GATEWAYS, POSTROUTING, SNAT, UPLINKS } from './skeleton.ts'
import type { EndpointRow, NetworkRow } from './tables.ts'

const AREA = 'networks'
/** What machines with a routed address have as their gateway. */
export const ROUTED_GATEWAY = '169.254.0.1'
/** RT_SCOPE_LINK of linux/rtnetlink.h: the node never sends from it to far away. */
const LINK_SCOPE = 253

/** Ids of refs. What two of them would both render has one of its own, so that every entry comes from one ref. */
const ref = (id: string): Ref => ({ area: AREA, id })
export const netRef = (number: number): Ref => ref(`net/${number}`)
export const endpointRef = ({ net, address }: Pick<EndpointRow, 'net' | 'address'>): Ref =>
  ref(`endpoint/${net}/${address}`)
export const claimRef = (ip: number): Ref => ref(`claim/${ip}`)
/** A block whose addresses are never translated. */
export const insideRef = ({ first, last }: Block): Ref => ref(`inside/${first}/${last}`)
/** The gateway of all routed addresses, there while one of them is used. */
export const routedRef: Ref = ref('routed')

/** What a ref of this area is about. */
export type Place =
  | { kind: 'net'; net: number }
  | { kind: 'endpoint'; net: number; address: number }
  | { kind: 'claim'; ip: number }

/** Reads the id of a ref; undefined for those of blocks and of the gateway of routed addresses, and for any other text. */
export function readRef(id: string): Place | undefined {
  const [, kind, ...numbers] = /^(net|endpoint|claim)\/(\d+)(?:\/(\d+))?$/.exec(id) ?? []
  const [first, last] = numbers.flatMap((text) => (text === undefined ? [] : Number(text)))
  if (first === undefined) return undefined
  if (kind === 'endpoint') return last === undefined ? undefined : { kind, net: first, address: last }
  if (last !== undefined) return undefined
  return kind === 'net' ? { kind, net: first } : { kind: 'claim', ip: first }
}

/** Masquerades what leaves the node for good (D62). */
const TRANSLATION: Chain = {
  kind: 'chain',
  key: `${AREA}/${POSTROUTING}`,
  chain: POSTROUTING,
  rules: [`oifname @${UPLINKS} ip saddr @${SNAT} ip daddr != @${INSIDE} masquerade`],
}

/** By `endpoint_ports`: which devices may take an endpoint that has none by name. */
const CLAIMS: ReadonlyMap<string, { claims: Claims }> = new Map([
  ['sticky', { claims: 'first' }],
  ['named', { claims: 'none' }],
])

/** A machine speaks to the gateway of its own network: those of others are as little its business as their machines. */
const OWN_GATEWAY_ONLY: Chain = {
  kind: 'chain',
  key: `${AREA}/${INPUT}`,
  chain: INPUT,
  rules: [
    `iifname != "${WORK_BRIDGE}" return`,
    `meta mark & ${maskText(STAMP_NET)} == 0 return`,
    // Somebody translated it: whoever is asked is not whom the machine called.
    'ct status dnat return',
    'ct state established,related return',
    `ip daddr @${GATEWAYS} ip saddr . ip daddr != @${OWN_GATEWAYS} drop`,
    `ip daddr ${ROUTED_GATEWAY} meta mark & ${maskText(STAMP_ROUTED)} == 0 drop`,
  ],
}

export const desired: Desired = {
  *all(db, config) {
    yield TRANSLATION
    yield OWN_GATEWAY_ONLY
    yield guestChain(config)
    yield* uplinkEntries(config)
    const rows = queries(db).allNetworks.all()
    for (const row of rows) yield* networkEntries(row, config)
    for (const block of outermost(rows)) yield insideElement(block)
    for (const row of routedQueries(db).allRanges.all()) yield insideElement(row)
    yield* routedEntries(db, config)
    for (const row of everyBound(db)) yield endpointEntry(row, config)
    for (const ip of everyClaim(db)) yield* claimEntries(db, ip, config)
  },
  one(db, id, config) {
    const [kind, ...rest] = id.split('/')
    const [first = 0, last = 0] = rest.map(Number)
    switch (kind) {
      case 'net': {
        const row = queries(db).networkNumbered.get({ net: first })
        return row ? networkEntries(row, config) : []
      }
      case 'inside':
        return isInside(db, { first, last }) ? [insideElement({ first, last })] : []
      case 'endpoint': {
        const row = queries(db).endpoint.get({ net: first, address: last })
        if (row === undefined || row.boundAt === '') return []
        const claimed = routedQueries(db).claimOfEndpoint.get({ net: first, address: last })?.ip ?? null
        return [endpointEntry({ ...row, claimed }, config)]
      }
      case 'claim':
        return claimEntries(db, first, config)
      default:
        return routedEntries(db, config)
    }
  },
}

function networkEntries(row: NetworkRow, config: Config): Entry[] {
  const cidr = blockText(row)
  const gateway = row.gateway === 0 ? undefined : ipText(row.gateway)
  return [
    net(AREA, {
      net: row.net,
      cidr,
      ...(gateway && { gateway }),
      ...(row.vlan > 0 && { vlan: row.vlan }),
      hostGateway: row.hostGateway,
      ...(row.dhcp && { dhcp: true }),
    }),
    ...(row.hostGateway && gateway
      ? [
          address(AREA, { link: WORK_BRIDGE, address: `${gateway}/${lengthOf(row)}` }),
          element(GATEWAYS, gateway),
          element(OWN_GATEWAYS, `${cidr} . ${gateway}`),
          ...fromUplink(config, `network ${row.name}`),
        ]
      : []),
    ...(row.snat ? [element(SNAT, cidr)] : []),
  ]
}

/** The device of a NIC, or how it comes to one. */
function placeOf({ port, keptPort }: Pick<EndpointRow, 'port' | 'keptPort'>, config: Config) {
  const how = config.text('endpoint_ports')
  const device = port || (how === 'sticky' ? keptPort : '')
  return { ...(device && { port: device }), ...CLAIMS.get(how) }
}

function endpointEntry({ net, address, mac, claimed, ...row }: EndpointWithClaim, config: Config): Entry {
  return binding(AREA, {
    net,
    address: ipText(address),
    mac,
    routed: claimed === null ? [] : [ipText(claimed)],
    ...placeOf(row, config),
  })
}

/** The way to a public address; and, for a NIC that has nothing else, a network of its own. */
function claimEntries(db: Db, ip: number, config: Config): Entry[] {
  const row = routedQueries(db).claim.get({ ip })
  if (row === undefined) return []
  const [text, mac, own] = [ipText(ip), row.currentMac, ROUTED_NET_BASE + row.own]
  const way = [
    route(AREA, { destination: `${text}/32`, link: WORK_BRIDGE }),
    // Permanent, so that nobody is asked who has the address and nobody else can claim it.
    neighbour(AREA, { link: WORK_BRIDGE, address: text, mac }),
  ]
  if (row.net > 0) return way
  return [
    ...way,
    net(AREA, { net: own, hostGateway: false }),
    binding(AREA, { net: own, address: text, mac, routed: [], ...placeOf(row, config) }),
  ]
}

const routedEntries = (db: Db, config: Config): Entry[] =>
  routedQueries(db).anyClaim.get()
    ? [
        address(AREA, { link: WORK_BRIDGE, address: `${ROUTED_GATEWAY}/32`, scope: LINK_SCOPE }),
        ...fromUplink(config, 'routed addresses'),
      ]
    : []

/** What comes in by the uplink is let through to br-work, whose setting is its own. */
function fromUplink(config: Config, holder: string): Entry[] {
  const uplink = config.text('uplink')
  return uplink === '' ? [] : [forwarding(AREA, uplink, holder)]
}

function uplinkEntries(config: Config): SetElement[] {
  const uplink = config.text('uplink')
  return uplink === '' ? [] : [element(UPLINKS, quotedInterface(uplink))]
}

/** In an interval set no element may lie in another, so of networks in each other only the outermost stand there. */
function outermost(rows: readonly NetworkRow[]): Block[] {
  const blocks = [...rows].sort((a, b) => a.first - b.first || b.last - a.last)
  let end = -1
  return blocks.filter(({ last }) => {
    if (last <= end) return false
    end = last
    return true
  })
}

function isInside(db: Db, block: Block): boolean {
  if (queries(db).networkOn.get(block)) return queries(db).networkAround.get(block) === undefined
  const range = routedQueries(db).rangeFrom.get({ ip: block.first })
  return range?.first === block.first && range.last === block.last
}

const insideElement = (block: Block): SetElement =>
  element(INSIDE, block.first === block.last ? ipText(block.first) : blockText(block))

const element = (set: string, text: string): SetElement => ({
  kind: 'element',
  key: `${AREA}/${set}/${text}`,
  set,
  element: text,
})
