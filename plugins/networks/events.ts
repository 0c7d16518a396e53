import { Type } from 'typebox'
import { Endpoint, Network, Range } from './schemas.ts'

const Id = Type.Object({ id: Type.String() })

/** Event type → its data. The public addresses of machines are told of as allocations, which IPAM declares. */
export const events = {
  'network.created': Network,
  'network.updated': Network,
  'network.deleted': Id,
  'endpoint.attached': Endpoint,
  'endpoint.detached': Endpoint,
  'endpoint.updated': Endpoint,
  'endpoint.moved': Type.Object({
    mac: Type.String(),
    ip: Type.String(),
    network_id: Type.Optional(Type.String()),
    endpoint_id: Type.Optional(Type.String()),
    old_port: Type.String({ description: 'empty when the device went while no agent ran' }),
    new_port: Type.String(),
  }),
  'endpoint.violation': Type.Object({
    mac: Type.String(),
    port: Type.String(),
    vlan_id: Type.Integer(),
    address: Type.Optional(Type.String({ description: 'sender address that the frame bore' })),
    reason: Type.String(),
    detail: Type.String(),
    suppressed: Type.Integer({ description: 'frames of this MAC on this port that were not told since the last' }),
  }),
  'routed_range.created': Range,
  'routed_range.deleted': Type.Object({ id: Type.String(), cidr: Type.String() }),
}
