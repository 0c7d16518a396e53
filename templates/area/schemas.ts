import { type Static, Type } from 'typebox'
import { Deleted, StringEnum } from '../../core/schemas.ts'

export const Thing = Type.Object({ id: Type.Integer(), name: Type.String() })
export const ThingInput = Type.Object({ name: Type.String({ minLength: 1, maxLength: 63 }) })
export const ThingList = Type.Object({ things: Type.Array(Thing) })
export const ThingCreated = Type.Object({ status: StringEnum(['created']), thing: Thing })
export const ThingDeleted = Deleted(Type.Integer())

export type Thing = Static<typeof Thing>
export type ThingInput = Static<typeof ThingInput>
