/** Arithmetic of bytes and packets. Pure. */
import type { Sums } from './tables.ts'

export const NOTHING: Sums = { bytesIn: 0, bytesOut: 0, packetsIn: 0, packetsOut: 0 }

export function plus(into: Sums, more: Sums): void {
  into.bytesIn += more.bytesIn
  into.bytesOut += more.bytesOut
  into.packetsIn += more.packetsIn
  into.packetsOut += more.packetsOut
}

export const minus = (a: Sums, b: Sums): Sums => ({
  bytesIn: a.bytesIn - b.bytesIn,
  bytesOut: a.bytesOut - b.bytesOut,
  packetsIn: a.packetsIn - b.packetsIn,
  packetsOut: a.packetsOut - b.packetsOut,
})
