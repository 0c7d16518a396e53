/** Answers of one moment, with what was counted until now. */
import type { Db, TypedApp } from '../../core/area.ts'
import { system } from '../../core/state/events.ts'
import { NOTHING_TOLD } from './fold.ts'
import { queries } from './queries.ts'
import { takeReading } from './record.ts'

/** What was read less than this ago is fresh enough to be told. */
const FRESH_MS = 1000

/** Resolves with what `work` makes of a snapshot of the store. */
export async function answered<T>(
  { agent: { now, pipeline, plane, store }, log }: Pick<TypedApp, 'agent' | 'log'>,
  work: (db: Db) => Promise<T>,
): Promise<T> {
  const isFresh = (db: Db) => now().getTime() - (queries(db).reading.get()?.at ?? 0) < FRESH_MS
  if (!isFresh(store.read)) {
    await pipeline
      // Of many that ask at once the first one reads, while the others wait for their turn.
      .mutate('flows', system('accounting'), async (tx) =>
        isFresh(tx) ? NOTHING_TOLD : takeReading(tx, plane, now(), log),
      )
      // What is stored is true up to the last reading.
      .catch((error: unknown) => log.error({ err: error }, 'traffic could not be accounted; this is tried again'))
  }
  const snapshot = store.snapshot()
  try {
    return await work(snapshot.db)
  } finally {
    snapshot.close()
  }
}
