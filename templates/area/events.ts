import { Type } from 'typebox'
import { Thing } from './schemas.ts'

/** Event type → its data. */
export const events = { 'AREA.created': Thing, 'AREA.deleted': Type.Object({ id: Type.Integer() }) }
