import { type Static, Type } from 'typebox'
import { Deleted, InterfaceName, Port, StringEnum } from '../../core/schemas.ts'
import { Waiting } from '../../core/waiting.ts'

const Address = Type.String({ maxLength: 64, description: 'IPv4 or IPv6 address' })
const Block = Type.String({ maxLength: 64, description: 'CIDR; host bits are cleared' })
const Device = Type.Union([Type.Literal(''), InterfaceName], { description: 'empty: the uplink' })

export const ForwardInput = Type.Object({
  dest_ip: Address,
  dest_port: Port,
  target_ip: Address,
  target_port: Port,
})
export const Forward = Type.Object({
  id: Type.Integer(),
  dest_ip: Type.String(),
  dest_port: Port,
  target_ip: Type.String(),
  target_port: Port,
})
export const ForwardList = Type.Object({ port_forwards: Type.Array(Forward) })
export const OneForward = Type.Object({ port_forward: Forward })
export const ForwardCreated = Type.Object({
  status: StringEnum(['created']),
  port_forward: Forward,
  pending: Waiting,
})

/** `source` and `wan` are other names of `source_cidr` and `interface`. */
export const SnatInput = Type.Object({
  source_cidr: Type.Optional(Block),
  source: Type.Optional(Block),
  interface: Type.Optional(Device),
  wan: Type.Optional(Device),
})
export const Snat = Type.Object({
  id: Type.Integer(),
  type: StringEnum(['snat']),
  source_ip: Type.String({ description: 'CIDR' }),
  interface: Type.String(),
  pending: Waiting,
})
/** Of a port forward: the public side in `dest_*`, the workload in `source_*`. */
export const NatRule = Type.Object({
  id: Type.Integer(),
  type: StringEnum(['snat', 'port_forward']),
  source_ip: Type.String(),
  source_port: Type.Optional(Port),
  dest_ip: Type.Optional(Type.String()),
  dest_port: Type.Optional(Port),
  interface: Type.Optional(Type.String()),
  pending: Waiting,
})
export const NatRuleList = Type.Object({ nat_rules: Type.Array(NatRule) })
export const SnatCreated = Type.Object({ status: StringEnum(['created']), rule: Snat })

export const RuleDeleted = Deleted(Type.Integer())

export type Forward = Static<typeof Forward>
export type ForwardInput = Static<typeof ForwardInput>
export type NatRule = Static<typeof NatRule>
export type Snat = Static<typeof Snat>
export type SnatInput = Static<typeof SnatInput>
