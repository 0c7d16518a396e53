import { type Static, Type } from 'typebox'
import { AddressText, Deleted, except, StringEnum, Timestamp } from '../../core/schemas.ts'

/** What another node is called: a host name or the id of a member of a cluster. */
const NodeName = Type.String({
  title: 'the name of a node: at most 64 letters, digits, dots, hyphens and underscores',
  pattern: '^[A-Za-z0-9._-]{0,64}$',
  ...except(),
})

export const FloatingIpInput = Type.Object({
  ip: AddressText,
  primary: Type.Optional(NodeName),
  standby: Type.Optional(NodeName),
})
export const FloatingIp = Type.Object({
  id: Type.String(),
  ip: Type.String(),
  primary: Type.String({ description: 'node that has it' }),
  standby: Type.String({ description: "node that is to take over; '' for none" }),
  active_host: Type.String(),
  state: StringEnum(['active', 'standby', 'failover'], {
    description: 'active: on this node; standby: on another; failover: moving, which is not possible yet',
  }),
  created_at: Timestamp,
})
export const FloatingIpList = Type.Object({ floating_ips: Type.Array(FloatingIp) })
export const FloatingIpCreated = Type.Object({ status: StringEnum(['created']), floating_ip: FloatingIp })
export const FloatingIpDeleted = Deleted(Type.String())

export type FloatingIpInput = Static<typeof FloatingIpInput>
export type FloatingIp = Static<typeof FloatingIp>
