import { Type } from 'typebox'
import { Network, Peer } from './schemas.ts'

const vni = Type.Integer()

/** Event type → its data. */
export const events = {
  'vxlan.created': Network,
  'vxlan.deleted': Type.Object({ vni }),
  'vxlan_peer.created': Type.Object({ vni, ...Peer.properties }),
  'vxlan_peer.deleted': Type.Object({ vni, host: Type.String() }),
}
