import { type Static, Type } from 'typebox'
import { StringEnum, Timestamp } from '../../core/schemas.ts'

export const Health = Type.Object({ status: StringEnum(['healthy']), uptime: Type.String() })

export const Status = Type.Object({
  status: StringEnum(['running', 'degraded']),
  version: Type.String(),
  uptime: Type.String(),
  acceleration: Type.Object({
    mode: StringEnum(['xdp-native', 'xdp-generic', 'tc', 'none']),
    summary: Type.String(),
    detail: Type.String(),
  }),
})

export const Licence = Type.Object({
  installed: Type.Boolean(),
  serial_number: Type.Optional(Type.String()),
  plan: Type.Optional(Type.String()),
  release_channel: Type.Optional(Type.String()),
  valid_until: Type.Optional(Timestamp),
  state: Type.Optional(StringEnum(['active', 'warning', 'grace', 'frozen'])),
  days_remaining: Type.Optional(Type.Integer()),
  expired: Type.Optional(Type.Boolean()),
  mutations_allowed: Type.Optional(Type.Boolean()),
  hardware_grace: Type.Optional(Type.Boolean()),
  max_bandwidth_gbps: Type.Optional(Type.Integer()),
  features: Type.Optional(Type.Record(Type.String(), Type.Boolean())),
})

export const Endpoint = Type.Object({
  method: Type.String(),
  path: Type.String(),
  area: Type.String(),
  summary: Type.String(),
  auth: StringEnum(['none', 'token', 'tenant']),
  feature: Type.Union([Type.String(), Type.Null()]),
  success: Type.Integer(),
})

export const Docs = Type.Object({
  name: Type.String(),
  version: Type.String(),
  base: Type.String(),
  count: Type.Integer(),
  endpoints: Type.Array(Endpoint),
})

export type Endpoint = Static<typeof Endpoint>
