/** The statements of the cluster, prepared once per connection. */
import { eq, gt, lte, sql } from 'drizzle-orm'
import type { Db, Ref } from '../../core/area.ts'
import { prepared } from '../../core/state/prepared.ts'
import { members, own, rows, self } from './tables.ts'

/** What follows from who the members are. */
export const MEMBERS_REF: Ref = { area: 'cluster', id: 'members' }

const given = sql.placeholder

export const queries = prepared((db) => ({
  self: db.select().from(self).prepare(),
  revisionOf: db
    .select({ revision: rows.revision })
    .from(rows)
    .where(eq(rows.key, given('key')))
    .prepare(),
  keep: db
    .insert(rows)
    .values({ key: given('key'), revision: given('revision') })
    .onConflictDoUpdate({ target: rows.key, set: { revision: sql`excluded.revision` } })
    .prepare(),
  forget: db
    .delete(rows)
    .where(eq(rows.key, given('key')))
    .prepare(),
  /** Keys from `first` to before `end`, at most `limit`; a whole tenant's would take long. */
  forgetSome: db
    .delete(rows)
    .where(
      sql`${rows.key} in (select key from cluster_rows where key >= ${given('first')} and key < ${given('end')} limit ${given('limit')})`,
    )
    .prepare(),
  reached: db
    .update(self)
    .set({ revision: sql`${given('revision')}` })
    .prepare(),
  made: db
    .insert(own)
    .values({ revision: given('revision') })
    .prepare(),
  isOwn: db
    .select()
    .from(own)
    .where(eq(own.revision, given('revision')))
    .prepare(),
  ownAfter: db
    .select()
    .from(own)
    .where(gt(own.revision, given('revision')))
    .prepare(),
  pass: db
    .delete(own)
    .where(lte(own.revision, given('revision')))
    .prepare(),
  members: db.select().from(members).orderBy(members.node).prepare(),
  seen: db
    .insert(members)
    .values({ node: given('node'), address: given('address'), voter: given('voter'), lastSeen: given('lastSeen') })
    .onConflictDoUpdate({
      target: members.node,
      set: { address: sql`excluded.address`, voter: sql`excluded.voter`, lastSeen: sql`excluded.last_seen` },
    })
    .prepare(),
  gone: db
    .delete(members)
    .where(eq(members.node, given('node')))
    .prepare(),
}))

/** Keys that are forgotten in one go. */
const PORTION = 500

/** Forgets the revisions of all keys from `first` to before `end`, in portions between which others get their turn. */
export async function forgetKeys(tx: Db, first: string, end: string): Promise<void> {
  while (queries(tx).forgetSome.run({ first, end, limit: PORTION }).changes === PORTION) await new Promise(setImmediate)
}
/** All of them: keys are ASCII. */
export const forgetAllKeys = (tx: Db): Promise<void> => forgetKeys(tx, '', '~')

/** With that a node is in no cluster. */
export async function forgetCluster(tx: Db): Promise<void> {
  for (const table of [self, own, members]) tx.delete(table).run()
  await forgetAllKeys(tx)
}
