/** The statements of the tasks, prepared once per connection. */
import { and, desc, eq, lte, max, sql } from 'drizzle-orm'
import { prepared } from '../../core/state/prepared.ts'
import { tasks } from './tables.ts'

const { placeholder } = sql
const withId = eq(tasks.id, placeholder('id'))

export const taskQueries = prepared((db) => ({
  task: db.select().from(tasks).where(withId).prepare(),
  newest: db.select().from(tasks).orderBy(desc(tasks.number)).limit(placeholder('limit')).prepare(),
  newestIn: db
    .select()
    .from(tasks)
    .where(eq(tasks.state, placeholder('state')))
    .orderBy(desc(tasks.number))
    .limit(placeholder('limit'))
    .prepare(),
  running: db.select().from(tasks).where(eq(tasks.state, 'running')).orderBy(tasks.number).prepare(),
  add: db
    .insert(tasks)
    .values({
      id: placeholder('id'),
      kind: placeholder('kind'),
      state: 'running',
      resource: placeholder('resource'),
      tenantId: placeholder('tenantId'),
      startedAt: placeholder('startedAt'),
    })
    .prepare(),
  advance: db
    .update(tasks)
    .set({ progress: sql`${placeholder('progress')}` })
    .where(withId)
    .prepare(),
  end: db
    .update(tasks)
    .set({
      state: sql`${placeholder('state')}`,
      progress: sql`${placeholder('progress')}`,
      finishedAt: sql`${placeholder('finishedAt')}`,
      error: sql`${placeholder('error')}`,
      result: sql`${placeholder('result')}`,
      ended: sql`${placeholder('ended')}`,
    })
    .where(withId)
    .prepare(),
  lastEnded: db
    .select({ ended: max(tasks.ended) })
    .from(tasks)
    .where(sql`ended > 0`)
    .prepare(),
  forget: db
    .delete(tasks)
    .where(and(sql`ended > 0`, lte(tasks.ended, placeholder('ended'))))
    .prepare(),
}))
