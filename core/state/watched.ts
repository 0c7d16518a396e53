/** Watches whether the store takes what is written to it: a disk that is full or fails is the node's trouble. */
import { Database } from './sqlite.ts'
import type { Store } from './store.ts'
import { marks } from './tables.ts'

export interface WatchedStore extends Store {
  /** Why the last write did not become durable; undefined while all is well. */
  problem(): string | undefined
  /** Runs a write that commits by itself, and notes how it ended. @throws what it throws */
  during<T>(write: () => T): T
  /** Writes something small, to see whether it can be done again. Call it while no mutation runs. Never throws. */
  probe(): void
}

export function watchStore(store: Store): WatchedStore {
  let problem: string | undefined
  let probes = 0

  function note(error: unknown): void {
    problem = `the store cannot be written: ${error instanceof Error ? error.message : String(error)}`
  }

  function during<T>(write: () => T): T {
    try {
      return write()
    } catch (error) {
      note(error)
      throw error
    }
  }

  /** Errors of the disk and of the file, not those of a statement (sqlite3.h). */
  const isOfTheDisk = (error: unknown): boolean =>
    error instanceof Database.SqliteError && /^SQLITE_(FULL|IOERR|READONLY|CORRUPT|CANTOPEN|NOTADB)/.test(error.code)

  function commit(): void {
    during(store.commit)
    problem = undefined
  }

  return {
    ...store,
    begin: () => during(store.begin),
    commit,
    rollback(cause) {
      if (isOfTheDisk(cause)) note(cause)
      store.rollback(cause)
    },
    during(write) {
      const result = during(write)
      problem = undefined
      return result
    },
    problem: () => problem,
    probe() {
      try {
        during(store.begin)
        const value = String(++probes)
        store.write
          .insert(marks)
          .values({ name: 'probe', value })
          .onConflictDoUpdate({ target: marks.name, set: { value } })
          .run()
        commit()
      } catch (error) {
        note(error)
        store.rollback(error)
      }
    },
  }
}
