import { Type } from 'typebox'
import { StringEnum } from '../../core/schemas.ts'
import { BFD_STATES, BGP_STATES } from '../../dataplane/frr/bgp.ts'
import { Announcement, Direction, Neighbor, PrefixList, RouteMap } from './schemas.ts'

const Named = Type.Object({ name: Type.String() })
const Policy = Type.Object({ direction: Direction, neighbor: Type.String(), route_map: Type.String() })
/** Without what only the speaker knows at the moment of an answer. */
const Session = Type.Omit(Neighbor, ['messages_in', 'messages_out', 'peer_graceful_restart'])
const moved = (states: readonly string[]) =>
  Type.Object({ ...Session.properties, from: StringEnum(states), to: StringEnum(states) })

/** Event type → its data. */
export const events = {
  'neighbor.created': Neighbor,
  'neighbor.deleted': Type.Object({ id: Type.String() }),
  'neighbor.state_changed': moved(BGP_STATES),
  'bfd.state_changed': moved(BFD_STATES),
  'announcement.created': Announcement,
  'announcement.updated': Announcement,
  'announcement.deleted': Type.Object({ prefix: Type.String() }),
  'prefix_list.created': PrefixList,
  'prefix_list.updated': PrefixList,
  'prefix_list.deleted': Named,
  'route_map.created': RouteMap,
  'route_map.updated': RouteMap,
  'route_map.deleted': Named,
  'bgp_policy.updated': Policy,
  'bgp_policy.deleted': Type.Omit(Policy, ['route_map']),
}
