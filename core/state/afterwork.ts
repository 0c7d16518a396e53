/**
 * What a change leaves to be done outside its transaction, such as connections to end: rows of a table, which outlive the
 * agent. They are gone through after every commit and at the start.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { AreaContext, Stop } from '../area.ts'

export interface Afterwork<Row> {
  /** Some rows that are left to do; none: all is done. */
  next(): Row[] | Promise<Row[]>
  /** Does what they ask for and deletes them. When it throws, they are tried again after the next change. */
  carryOut(rows: Row[]): Promise<void>
  /** For the log when it throws: what could not be done. */
  failed: string
  /** Least time between two turns, so that a stream of changes shares them; default 0. */
  intervalMs?: number
}

/** Between two turns when the first failed: each begins with all that is left, so a stream of changes must not cause one each. */
const AGAIN_MS = 1000

/** Begins at once. What it returns waits for the rows in hand. */
export function startAfterwork<Row>({ log, onCommit }: AreaContext, work: Afterwork<Row>): Stop {
  let running: Promise<void> | undefined
  let again = false
  const stopped = new AbortController()
  const { signal } = stopped
  /** At once when the area is stopped. */
  const pause = (ms: number) => delay(ms, undefined, { signal }).catch(() => {})

  const turns = async () => {
    for (let rows = await work.next(); rows.length > 0 && !signal.aborted; rows = await work.next()) {
      await work.carryOut(rows)
      if (work.intervalMs) await pause(work.intervalMs)
    }
  }
  const all = async () => {
    // The first turn goes to whoever called, so `running` is set before the loop can end.
    await Promise.resolve()
    while (again && !signal.aborted) {
      again = false
      await turns().catch(async (error: unknown) => {
        log.warn({ err: error }, `${work.failed}; this is tried again after the next change`)
        await pause(AGAIN_MS)
      })
    }
    running = undefined
  }
  const start = () => {
    again = true
    running ??= all()
  }
  const stopListening = onCommit(start)
  start()
  return async () => {
    stopped.abort()
    stopListening()
    await running
  }
}
