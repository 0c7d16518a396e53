/** Numbers of MACs and tenants that are seen first. */
import type { Db } from '../../core/area.ts'
import { LAST_MAC, LAST_TENANT } from './keys.ts'
import { queries } from './queries.ts'

/** Guests on open ports choose their MACs, and must not use up the numbers of those that are bound. */
const LAST_OPEN_MAC = 65_536

/** The number of the next one, which must be stored before the next is asked for; undefined when all are taken. */
export type Numbers = Record<'open' | 'bound' | 'tenant', () => number | undefined>

/** For one transaction that takes none away: what was searched once is not searched again. */
export function numbersOf(tx: Db): Numbers {
  return {
    open: numbersBetween(tx, 1, LAST_OPEN_MAC),
    bound: numbersBetween(tx, LAST_OPEN_MAC + 1, LAST_MAC),
    tenant: numbersBetween(tx, LAST_MAC + 1, LAST_TENANT),
  }
}

/** The one behind the highest; when there is none, one whose MAC is gone. */
function numbersBetween(tx: Db, first: number, last: number): () => number | undefined {
  let highest: number | undefined
  let searched: number | undefined = first
  return () => {
    highest ??= queries(tx).lastMac.get({ first, last })?.id ?? first - 1
    if (highest < last) return ++highest
    if (searched === undefined) return undefined
    const gap = queries(tx).gapInMacs.get({ behind: searched, last })?.id ?? undefined
    searched = gap === undefined ? undefined : Math.max(first, gap - 1)
    return gap
  }
}
