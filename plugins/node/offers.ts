/** What the node's own area offers to others. */
export { duration } from './uptime.ts'
