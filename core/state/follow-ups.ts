/**
 * Work that follows a commit: recorded in its transaction, done after it, forgotten once done. After a crash in between it
 * is done at the next start, so it must be harmless to do twice.
 */
import { inArray } from 'drizzle-orm'
import type { FastifyBaseLogger } from 'fastify'
import type { Db, FollowUp } from '../area.ts'
import { followUps } from './tables.ts'

export type Recorded = FollowUp & { id: number }

export interface FollowUps {
  /** Records inside the open transaction, and forgets there what has been done since the last one. */
  record(tx: Db, work: readonly FollowUp[]): readonly Recorded[]
  /** Does the work; a failure is logged and leaves it recorded for `resume`. */
  run(work: readonly Recorded[]): Promise<void>
  /** Does everything that is recorded. */
  resume(): Promise<void>
}

export function openFollowUps(
  read: Db,
  log: FastifyBaseLogger,
  carryOut: (work: FollowUp) => Promise<void>,
): FollowUps {
  let done: number[] = []

  async function run(work: readonly Recorded[]): Promise<void> {
    for (const item of work) {
      try {
        await carryOut(item)
        done.push(item.id)
      } catch (error) {
        log.error({ err: error, area: item.area, kind: item.kind }, 'a follow-up failed; it is tried again')
      }
    }
  }

  return {
    record(tx, work) {
      if (done.length > 0) {
        // Should this transaction be rolled back, the rows come back and are done once more at the next start.
        tx.delete(followUps).where(inArray(followUps.id, done)).run()
        done = []
      }
      return work.map((item) => {
        const row = { area: item.area, kind: item.kind, data: JSON.stringify(item.data) }
        return { ...item, id: tx.insert(followUps).values(row).returning({ id: followUps.id }).get().id }
      })
    },
    run,
    async resume() {
      const known = new Set(done)
      const rows = read.select().from(followUps).all()
      await run(
        rows.filter(({ id }) => !known.has(id)).map((row) => ({ ...row, data: JSON.parse(row.data) as unknown })),
      )
    },
  }
}
