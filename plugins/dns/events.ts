import { Type } from 'typebox'
import { Dnssec, Record, Zone } from './schemas.ts'

const Gone = Type.Object({ id: Type.Integer() })

/** Event type → its data. */
export const events = {
  'zone.created': Zone,
  'zone.deleted': Gone,
  'record.created': Record,
  'record.deleted': Gone,
  'dnssec.created': Dnssec,
}
