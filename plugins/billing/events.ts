import { State } from './schemas.ts'

/** Event type → its data. */
export const events = {
  'billing.updated': State,
}
