import { Type } from 'typebox'
import { Forward, Snat } from './schemas.ts'

const Id = Type.Object({ id: Type.Integer() })

/** Event type → its data. */
export const events = {
  'forward.created': Forward,
  'forward.deleted': Id,
  'snat.created': Snat,
  'snat.deleted': Id,
}
