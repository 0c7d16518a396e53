/** The statements of billing, prepared once per connection. */
import { eq, sql } from 'drizzle-orm'
import { prepared } from '../../core/state/prepared.ts'
import { states } from './tables.ts'

const { placeholder } = sql
const ofTenant = eq(states.tenantId, placeholder('tenantId'))

export const queries = prepared((db) => ({
  state: db.select().from(states).where(ofTenant).prepare(),
  all: db.select().from(states).orderBy(states.tenantId).prepare(),
  counts: db
    .select({
      limited: sql<number>`count(nullif(limit_bps, 0))`,
      blocked: sql<number>`coalesce(sum(blocked), 0)`,
    })
    .from(states)
    .prepare(),
  bucket: db
    .select({ tenantId: states.tenantId })
    .from(states)
    .where(eq(states.bucket, placeholder('bucket')))
    .prepare(),
  /** The bucket after the lowest used one that is followed by a free one. */
  gap: db
    .select({ bucket: sql<number>`bucket + 1` })
    .from(states)
    .where(sql`not exists (select 1 from billing_states as next where next.bucket = billing_states.bucket + 1)`)
    .orderBy(states.bucket)
    .limit(1)
    .prepare(),
  put: db
    .insert(states)
    .values({
      tenantId: placeholder('tenantId'),
      bucket: placeholder('bucket'),
      limitBps: placeholder('limitBps'),
      suspendedAt: placeholder('suspendedAt'),
      blocked: sql`${placeholder('blocked')}`,
    })
    .onConflictDoUpdate({
      target: states.tenantId,
      set: {
        limitBps: sql`excluded.limit_bps`,
        suspendedAt: sql`excluded.suspended_at`,
        blocked: sql`excluded.blocked`,
      },
    })
    .prepare(),
  remove: db.delete(states).where(ofTenant).prepare(),
}))
