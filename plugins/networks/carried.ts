/** What networks offer to those who carry them beyond the node: which there are, by number, range and ref. */
import type { Db } from '../../core/area.ts'
import { readRef } from './desired.ts'
import { blockText, parseBlock } from './ipv4.ts'
import { queries } from './queries.ts'
import type { NetworkRow } from './tables.ts'

/** A network as the data plane knows it. */
export interface Carried {
  id: string
  /** Its number there. */
  net: number
  cidr: string
}

/** The network with an id. */
export function carried(db: Db, id: string): Carried | undefined {
  const row = queries(db).network.get({ id })
  return row && toCarried(row)
}

/** Up to two networks whose range is `cidr`: more make no difference to who wants the one. */
export function carriedOn(db: Db, cidr: string): Carried[] {
  const block = parseBlock(cidr)
  return typeof block === 'string'
    ? []
    : queries(db).networksOn.all({ first: block.first, last: block.last }).map(toCarried)
}

/** The network that a ref of this area is about; undefined for refs of other things, and for one that is not there. */
export function carriedBy(db: Db, ref: string): Carried | undefined {
  const place = readRef(ref)
  const row = place?.kind === 'net' ? queries(db).networkNumbered.get({ net: place.net }) : undefined
  return row && toCarried(row)
}

const toCarried = (row: NetworkRow): Carried => ({ id: row.id, net: row.net, cidr: blockText(row) })
