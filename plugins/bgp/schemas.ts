import { type Static, Type } from 'typebox'
import { AddressText, Name, Printable, StringEnum, Timestamp } from '../../core/schemas.ts'
import { BFD_STATES, BGP_STATES } from '../../dataplane/frr/bgp.ts'

const As = Type.Integer({ minimum: 1, maximum: 4_294_967_295, description: 'AS number (RFC 6793)' })
const Seconds = Type.Integer({ minimum: 0, maximum: 65_535 })
const U32 = Type.Integer({ minimum: 0, maximum: 4_294_967_295 })

export const NeighborInput = Type.Object({
  peer_addr: AddressText,
  peer_as: As,
  local_as: As,
  hold_time: Type.Optional(Seconds),
  keepalive_interval: Type.Optional(Seconds),
  md5_key: Type.Optional(Type.String({ maxLength: 128, description: 'TCP-MD5 (RFC 2385); never returned' })),
  bfd_enabled: Type.Optional(Type.Boolean()),
  bfd_interval_ms: Type.Optional(Type.Integer({ minimum: 50, maximum: 60_000 })),
  // RFC 5880 allows 1, bfdd does not.
  bfd_multiplier: Type.Optional(
    Type.Integer({ minimum: 2, maximum: 255, description: 'with 1, one lost packet would end the session' }),
  ),
})
export const Neighbor = Type.Object({
  id: Type.String(),
  peer_addr: Type.String(),
  peer_as: Type.Integer(),
  local_as: Type.Integer(),
  state: StringEnum(BGP_STATES),
  hold_time: Type.Integer(),
  keepalive_interval: Type.Integer(),
  bfd_enabled: Type.Boolean(),
  bfd_interval_ms: Type.Integer(),
  bfd_multiplier: Type.Integer(),
  last_state_change: Timestamp,
  messages_in: Type.Integer(),
  messages_out: Type.Integer(),
  graceful_restart: Type.Boolean(),
  bfd_status: StringEnum(BFD_STATES),
  bfd_detect_time_ms: Type.Integer({ description: 'interval times multiplier' }),
  peer_graceful_restart: Type.Boolean(),
  installs_routes: Type.Boolean({
    description:
      'false: bgpd keeps what this neighbor announces out of the kernel, because it is an internal neighbor of a second AS',
  }),
})
export const NeighborList = Type.Object({ neighbors: Type.Array(Neighbor) })
export const NeighborCreated = Type.Object({ status: StringEnum(['created']), neighbor: Neighbor })
/** Says that a change is stored and configured, but not carried out on every route yet. */
const Pending = Type.Optional(
  Type.Boolean({
    description: 'bgpd or zebra is still going through its routes; absent once all of them follow the change',
  }),
)
export const NeighborDeleted = Type.Object({ status: StringEnum(['deleted']), addr: Type.String(), pending: Pending })

export const Status = Type.Object({
  status: StringEnum(['running', 'idle']),
  neighbors: Type.Integer(),
  routes: Type.Integer(),
  bfd_sessions_up: Type.Integer(),
})

export const Route = Type.Object({
  prefix: Type.String(),
  next_hop: Type.String({
    description:
      '0.0.0.0 or :: for an announcement of the node itself: each neighbor is told the address of this node that its session is from',
  }),
  as_path: Type.Array(Type.Integer()),
  communities: Type.Array(Type.String()),
  local_pref: Type.Optional(Type.Integer()),
  med: Type.Optional(Type.Integer()),
  origin: StringEnum(['igp', 'egp', 'incomplete']),
  peer_addr: Type.String(),
  source: StringEnum(['announced', 'received']),
  best: Type.Boolean(),
  received_at: Timestamp,
})
export const RouteList = Type.Object({ routes: Type.Array(Route), family: StringEnum(['ipv4', 'ipv6']) })
export const RouteQuery = Type.Object({
  family: Type.Optional(StringEnum(['ipv4', 'ipv6'])),
  peer: Type.Optional(AddressText),
  best: Type.Optional(StringEnum(['true', 'false'])),
})

export const AnnounceInput = Type.Object({
  prefix: AddressText,
  next_hop: Type.Optional(AddressText),
  communities: Type.Optional(Type.Array(Printable(32), { maxItems: 64 })),
})
export const WithdrawInput = Type.Object({ prefix: AddressText })
export const Announced = Type.Object({ status: StringEnum(['announced', 'withdrawn']), prefix: Type.String() })
export const Announcement = Type.Object({
  prefix: Type.String(),
  next_hop: Type.String({ description: 'empty: the node itself' }),
  communities: Type.Array(Type.String()),
})

const Action = Type.Optional(Printable(16, 'allow or permit, deny or block; empty means allow'))
export const PrefixListInput = Type.Object({
  name: Name,
  entries: Type.Optional(
    Type.Array(
      Type.Object({
        prefix: AddressText,
        action: Action,
        ge: Type.Optional(Type.Integer({ minimum: 0, maximum: 128 })),
        le: Type.Optional(Type.Integer({ minimum: 0, maximum: 128 })),
      }),
      { maxItems: 1000 },
    ),
  ),
})
export const PrefixEntry = Type.Object({
  prefix: Type.String(),
  action: StringEnum(['permit', 'deny']),
  ge: Type.Integer(),
  le: Type.Integer(),
})
export const PrefixList = Type.Object({ name: Type.String(), entries: Type.Array(PrefixEntry) })
export const PrefixLists = Type.Object({ prefix_lists: Type.Array(PrefixList) })
const Put = StringEnum(['created', 'updated', 'deleted'])
export const PrefixListPut = Type.Object({ status: Put, prefix_list: Type.String(), pending: Pending })

export const RouteMapInput = Type.Object({
  name: Name,
  entries: Type.Optional(
    Type.Array(
      Type.Object({
        seq: Type.Optional(Type.Integer({ minimum: 0, maximum: 65_535 })),
        action: Action,
        match_prefix: Type.Optional(Printable(63, 'name of a prefix-list; empty matches everything')),
        set_local_pref: Type.Optional(U32),
        set_community: Type.Optional(Type.Union([Printable(1024), Type.Array(Printable(32), { maxItems: 64 })])),
        set_med: Type.Optional(U32),
      }),
      { maxItems: 1000 },
    ),
  ),
})
export const RouteMapEntry = Type.Object({
  seq: Type.Integer(),
  action: StringEnum(['permit', 'deny']),
  match_prefix: Type.String(),
  set_local_pref: Type.Optional(Type.Integer()),
  set_community: Type.Optional(Type.String({ description: 'communities, separated by blanks' })),
  set_med: Type.Optional(Type.Integer()),
})
export const RouteMap = Type.Object({ name: Type.String(), entries: Type.Array(RouteMapEntry) })
export const RouteMaps = Type.Object({ route_maps: Type.Array(RouteMap) })
export const RouteMapPut = Type.Object({ status: Put, route_map: Type.String(), pending: Pending })

const Names = Type.Record(Type.String(), Type.String(), { description: 'neighbor to name of route-map' })
export const Policy = Type.Object({ import: Names, export: Names })
export const PolicyInput = Type.Object({ neighbor: AddressText, route_map: Printable(63) })
export const Direction = StringEnum(['import', 'export'])
export const PolicyPut = Type.Object({
  status: StringEnum(['updated']),
  direction: Direction,
  neighbor: Type.String(),
  route_map: Type.String(),
  pending: Pending,
})
export const PolicyGone = Type.Object({
  status: StringEnum(['deleted']),
  direction: Direction,
  neighbor: Type.String(),
  pending: Pending,
})

export type Neighbor = Static<typeof Neighbor>
export type NeighborInput = Static<typeof NeighborInput>
export type Route = Static<typeof Route>
export type AnnounceInput = Static<typeof AnnounceInput>
export type Announcement = Static<typeof Announcement>
export type PrefixEntry = Static<typeof PrefixEntry>
export type PrefixList = Static<typeof PrefixList>
export type PrefixListInput = Static<typeof PrefixListInput>
export type RouteMap = Static<typeof RouteMap>
export type RouteMapEntry = Static<typeof RouteMapEntry>
export type RouteMapInput = Static<typeof RouteMapInput>
export type Direction = 'import' | 'export'
