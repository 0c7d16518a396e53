import { Type } from 'typebox'
import { Bridge, Port } from './schemas.ts'

/** Event type → its data. */
export const events = {
  'bridge.created': Bridge,
  'bridge.deleted': Type.Object({ name: Type.String() }),
  'bridge.added': Port,
  'bridge.removed': Port,
}
