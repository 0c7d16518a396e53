import { StateChanged } from './schemas.ts'

/** Event type → its data. */
export const events = { 'gateway.state_changed': StateChanged }
