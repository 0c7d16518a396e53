import { type Static, Type } from 'typebox'
import { Timestamp } from '../../core/schemas.ts'
import { Nic, NicInput } from '../networks/offers.ts'

/** Shows up as `used_by` of what the machine has. */
const MachineName = Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$' })

export const MachineInput = Type.Object(
  { machine: MachineName, ...NicInput.properties },
  { additionalProperties: false },
)
export const MachineParams = Type.Object({ machine: Type.String({ maxLength: 256 }) })

export const Machine = Type.Object({
  name: Type.String(),
  created_at: Timestamp,
  networks: Type.Array(Nic),
})

export type Machine = Static<typeof Machine>
