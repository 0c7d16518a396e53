import { Thing } from './schemas.ts'

/** Event type → its data. */
export const events = { 'AREA.created': Thing }
