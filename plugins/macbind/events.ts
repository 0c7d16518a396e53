import { Type } from 'typebox'
import { Binding, Violation } from './schemas.ts'

/** Event type → its data. */
export const events = {
  'macbind.created': Binding,
  'macbind.deleted': Type.Object({ mac: Type.String() }),
  'macbind.violation': Violation,
}
