/** The licence on the wire, as `GET /license` answers it and `license.updated` carries it; see LicenceView. */
import { Type } from 'typebox'
import { StringEnum, Timestamp } from '../schemas.ts'

export const LICENCE_STATES = ['active', 'warning', 'grace', 'frozen'] as const

export const LicenceShown = Type.Object({
  installed: Type.Boolean(),
  serial_number: Type.Optional(Type.String()),
  plan: Type.Optional(Type.String()),
  release_channel: Type.Optional(Type.String()),
  valid_until: Type.Optional(Timestamp),
  state: Type.Optional(StringEnum(LICENCE_STATES)),
  days_remaining: Type.Optional(Type.Integer()),
  expired: Type.Optional(Type.Boolean()),
  mutations_allowed: Type.Optional(Type.Boolean()),
  hardware_grace: Type.Optional(Type.Boolean()),
  max_bandwidth_gbps: Type.Optional(Type.Integer()),
  features: Type.Optional(Type.Record(Type.String(), Type.Boolean())),
})
