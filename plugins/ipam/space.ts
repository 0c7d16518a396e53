/**
 * The free space of pools as intervals: each call reads and writes a handful of rows, however large the pool is and
 * however much of it is taken. Addresses are hex (address.ts).
 */
import type { Db } from '../../core/area.ts'
import { moved } from './address.ts'
import { queries } from './queries.ts'

/** Makes `first` to `last` free, but for the address `except` ('' = none). Nothing when the interval is empty. */
export function openSpace(tx: Db, pool: number, first: string, last: string, except: string): void {
  // '' is below every address.
  if (except < first || except > last) add(tx, pool, first, last)
  else addRest(tx, { pool, first, last }, except)
}

/** Takes the lowest free address; undefined when none is left. */
export function takeLowest(tx: Db, pool: number): string | undefined {
  const lowest = queries(tx).lowestFree.get({ pool })
  if (lowest === undefined) return undefined
  queries(tx).removeFree.run({ pool, first: lowest.first })
  addRest(tx, lowest, lowest.first)
  return lowest.first
}

/** Takes that address; false when it is not free. */
export function take(tx: Db, pool: number, address: string): boolean {
  const around = queries(tx).freeAtOrBelow.get({ pool, address })
  if (around === undefined || around.last < address) return false
  queries(tx).removeFree.run({ pool, first: around.first })
  addRest(tx, around, address)
  return true
}

/** Makes an address that was taken free again, and joins the intervals that then touch. */
export function giveBack(tx: Db, pool: number, address: string): void {
  const q = queries(tx)
  const below = q.freeAtOrBelow.get({ pool, address })
  const above = q.freeAt.get({ pool, address: moved(address, 1n) })
  const first = below?.last === moved(address, -1n) ? below.first : address
  if (first !== address) q.removeFree.run({ pool, first })
  if (above) q.removeFree.run({ pool, first: above.first })
  add(tx, pool, first, above?.last ?? address)
}

interface Interval {
  pool: number
  first: string
  last: string
}

/** Adds what is left of an interval without one address of it. */
function addRest(tx: Db, { pool, first, last }: Interval, address: string): void {
  if (address > first) add(tx, pool, first, moved(address, -1n))
  if (address < last) add(tx, pool, moved(address, 1n), last)
}

function add(tx: Db, pool: number, first: string, last: string): void {
  if (first <= last) queries(tx).addFree.run({ pool, first, last })
}
