/** The statements of the area, prepared once per connection. */
import { and, asc, count, desc, eq, getTableColumns, gt, lte, ne, or, sql } from 'drizzle-orm'
import type { Db } from '../../core/area.ts'
import { prepared } from '../../core/state/prepared.ts'
import { PAGE } from '../../core/transport/list.ts'
import type { LeaseState } from './schemas.ts'
import { type LeaseRow, leases } from './tables.ts'

const { placeholder } = sql
/** A placeholder stands for any value; drizzle wants each column by name. */
const everyColumn = <Row>(columns: object): Row =>
  Object.fromEntries(Object.keys(columns).map((name) => [name, placeholder(name)])) as Row
const afterLast = gt(leases.id, placeholder('after'))
const isDue = and(eq(leases.state, 'active'), lte(leases.expiresAt, placeholder('now')))
const holds = and(eq(leases.state, 'active'), gt(leases.expiresAt, placeholder('now')))
/** Its client may hold it, whoever has the address now. */
const mayBeHeld = or(eq(leases.state, 'active'), eq(leases.held, 1))
const ofAddress = and(eq(leases.net, placeholder('net')), eq(leases.address, placeholder('address')))
const { id: _, ...settable } = getTableColumns(leases)

export const queries = prepared((db) => {
  const page = () => db.select().from(leases).$dynamic()
  const inOrder = [asc(leases.id)]
  return {
    all: page()
      .where(afterLast)
      .orderBy(...inOrder)
      .limit(PAGE)
      .prepare(),
    active: page()
      .where(and(holds, afterLast))
      .orderBy(...inOrder)
      .limit(PAGE)
      .prepare(),
    expired: page()
      .where(and(or(eq(leases.state, 'expired'), isDue), afterLast))
      .orderBy(...inOrder)
      .limit(PAGE)
      .prepare(),
    revoked: page()
      .where(and(eq(leases.state, 'revoked'), afterLast))
      .orderBy(...inOrder)
      .limit(PAGE)
      .prepare(),
    due: page().where(isDue).limit(PAGE).prepare(),
    over: page()
      .where(and(lte(leases.endedAt, placeholder('before')), sql`ended_at > 0`))
      .limit(PAGE)
      .prepare(),
    /** Nobody's any more, and over by now. */
    heldTooLong: page()
      .where(and(sql`held > 0`, lte(leases.expiresAt, placeholder('now'))))
      .limit(PAGE)
      .prepare(),
    heldOfMac: page()
      .where(and(eq(leases.mac, placeholder('mac')), mayBeHeld))
      .orderBy(desc(leases.heardAt))
      .prepare(),
    heldOfAddress: page().where(and(ofAddress, mayBeHeld)).prepare(),
    heldOfNet: page()
      .where(and(eq(leases.net, placeholder('net')), mayBeHeld))
      .prepare(),
    held: page()
      .where(and(mayBeHeld, afterLast))
      .orderBy(...inOrder)
      .limit(PAGE)
      .prepare(),
    lease: page()
      .where(and(ofAddress, eq(leases.mac, placeholder('mac'))))
      .prepare(),
    /** Of other MACs on the same address. */
    othersActive: page()
      .where(and(ofAddress, ne(leases.mac, placeholder('mac')), holds))
      .prepare(),
    activeOfMac: page()
      .where(and(eq(leases.mac, placeholder('mac')), holds))
      .prepare(),
    activeOfAddress: page()
      .where(and(eq(leases.address, placeholder('address')), holds))
      .prepare(),
    add: db.insert(leases).values(everyColumn<Omit<LeaseRow, 'id'>>(settable)).returning({ id: leases.id }).prepare(),
    set: db
      .update(leases)
      .set(everyColumn<Omit<LeaseRow, 'id'>>(settable))
      .where(eq(leases.id, placeholder('id')))
      .prepare(),
    remove: db
      .delete(leases)
      .where(eq(leases.id, placeholder('id')))
      .prepare(),
    count: db
      .select({ count: count() })
      .from(leases)
      .where(eq(leases.state, placeholder('state')))
      .prepare(),
  }
})

/** Leases after `last`, by id; `now` in Unix seconds. */
export function leasePage(db: Db, state: LeaseState | undefined, now: number, last: LeaseRow | undefined): LeaseRow[] {
  return queries(db)[state ?? 'all'].all({ after: last?.id ?? 0, now })
}
