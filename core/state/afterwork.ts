/**
 * What a change leaves to be done outside its transaction, such as connections to end: rows of a table, which outlive the
 * agent. They are gone through after every commit and at the start.
 */
import type { AreaContext, Stop } from '../area.ts'

export interface Afterwork<Row> {
  /** Some rows that are left to do; none: all is done. */
  next(): Row[]
  /** Does what they ask for and deletes them. When it throws, they are tried again after the next change. */
  carryOut(rows: Row[]): Promise<void>
  /** For the log when it throws: what could not be done. */
  failed: string
}

/** Begins at once. What it returns waits for the rows in hand. */
export function startAfterwork<Row>({ log, onCommit }: AreaContext, work: Afterwork<Row>): Stop {
  let running: Promise<void> | undefined
  let stopped = false
  const all = async () => {
    // The first turn goes to whoever called, so `running` is set before the loop can end.
    await Promise.resolve()
    try {
      for (let rows = work.next(); rows.length > 0 && !stopped; rows = work.next()) await work.carryOut(rows)
    } catch (error) {
      log.warn({ err: error }, `${work.failed}; this is tried again after the next change`)
    }
    running = undefined
  }
  const start = () => {
    running ??= all()
  }
  const stopListening = onCommit(start)
  start()
  return async () => {
    stopped = true
    stopListening()
    await running
  }
}
