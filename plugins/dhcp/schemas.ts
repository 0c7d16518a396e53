import { type Static, Type } from 'typebox'
import { AddressText, StringEnum, Timestamp } from '../../core/schemas.ts'

export const LeaseState = StringEnum(['active', 'expired', 'revoked'])

export const Lease = Type.Object({
  id: Type.Integer(),
  mac: Type.String(),
  ip: Type.String(),
  state: LeaseState,
  hostname: Type.String({ description: 'as the client calls itself; empty when it does not' }),
  expires_at: Type.Integer({ description: 'Unix seconds, UTC' }),
  network_id: Type.String(),
})
export const LeaseList = Type.Object({ leases: Type.Array(Lease) })
export const LeaseQuery = Type.Object({ state: Type.Optional(LeaseState) })

/** Id or name of a network. */
const Called = Type.Optional(Type.String({ maxLength: 64 }))

export const ReservationInput = Type.Object({ mac: AddressText, ip: AddressText, network: Called })
/** `which`: an address or a MAC. */
export const Which = Type.Object({ which: AddressText })
export const InNetwork = Type.Object({ network: Called })
export const ReleaseInput = Type.Object({ which: AddressText, network: Called })

export const Reservation = Type.Object({
  network_id: Type.String(),
  mac: Type.String(),
  ip: Type.String(),
  /** Which has taken it; '' = none. */
  machine: Type.String(),
  created_at: Timestamp,
})

export type Lease = Static<typeof Lease>
export type LeaseState = Static<typeof LeaseState>
export type Reservation = Static<typeof Reservation>
export type ReservationInput = Static<typeof ReservationInput>
export type ReleaseInput = Static<typeof ReleaseInput>
