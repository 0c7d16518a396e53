/** What comes over the wire, checked and in one spelling. */
import type { Db } from '../../core/area.ts'
import { badRequest, conflict, notFound } from '../../core/errors.ts'
import { parseMac } from '../../dataplane/nft/text.ts'
import { queries } from './queries.ts'
import type { PoolRow } from './tables.ts'

const BURST_SECONDS = 0.01
const LEAST_BURST = 15_000

/** @throws ApiError 400 naming `field` */
export function readMac(text: string, field: string): string {
  const mac = parseMac(text)
  if (mac === undefined) throw badRequest(`${field}: not a MAC address`)
  // The group bit (IEEE 802-2014, 8.2.2): nobody sends from such an address.
  if (Number.parseInt(mac.slice(0, 2), 16) & 1) throw badRequest(`${field}: is a multicast address`)
  if (mac === '00:00:00:00:00:00') throw badRequest(`${field}: no device has the address 00:00:00:00:00:00`)
  return mac
}

/** `gbps`: what the licence lets the node carry, 0 for no end. @throws ApiError 400 */
export function checkRate(rate: number, field: string, gbps: number): void {
  if (gbps > 0 && rate > gbps * 1e9) {
    throw badRequest(`${field}: the licence lets this node carry ${gbps} Gbit/s (${gbps * 1e9})`)
  }
}

/** Bytes that pass at once where nobody said how many (D94). */
export const defaultBurst = (rate: number): number => Math.max(LEAST_BURST, Math.ceil((rate / 8) * BURST_SECONDS))

/** @throws ApiError 404 */
export function findPool(db: Db, id: string): PoolRow {
  const row = queries(db).pool.get({ id })
  if (row === undefined) throw notFound('bandwidth pool', printable(id))
  return row
}

/** What is promised to members must be there: a class has what it is guaranteed, whatever its pool has. @throws ApiError 409 */
export function checkGuarantees(tx: Db, { id, total }: Pick<PoolRow, 'id' | 'total'>): void {
  const sum = queries(tx).guaranteed.get({ pool: id })?.sum ?? 0
  if (sum > total) {
    throw conflict(
      'OVERCOMMITTED',
      `pool ${id} has ${total} bit/s, and its members would be guaranteed ${sum}; raise total_bps or lower guaranteed_bps`,
    )
  }
}

/** An id of a path, for an error. */
export const printable = (id: string): string => id.replace(/[^\x21-\x7e]/g, '?').slice(0, 64)
