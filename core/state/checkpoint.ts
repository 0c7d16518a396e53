/**
 * Keeps the WAL short: what was committed goes from it into the database (https://www.sqlite.org/wal.html#ckpt). What one large commit has
 * left takes as long as that commit and is done on a thread. The store is whole without it, so it may fail or be cut short.
 */
import { Worker } from 'node:worker_threads'
import type Database from 'better-sqlite3'

/** Pages after which it is done, as SQLite does it by default. */
const PAGES = 1000
/** So many are done at once, in a few ms: a thread costs more. */
const AT_ONCE = 1500

/** What to call after a commit. Never throws: that has happened. */
export function openCheckpoints(writer: Database.Database): () => void {
  writer.pragma('wal_autocheckpoint = 0')
  const look = writer.prepare<[], [busy: number, log: number, done: number]>('PRAGMA wal_checkpoint(NOOP)').raw()
  const now = writer.prepare('PRAGMA wal_checkpoint(PASSIVE)')
  let [last, due, running] = [0, PAGES, false]

  function onThread(): void {
    running = true
    const thread = new Worker(new URL('./checkpoint-worker.js', import.meta.url), { workerData: writer.name })
    thread.unref()
    thread.once('error', () => {})
    thread.once('exit', () => {
      running = false
    })
  }

  return () => {
    try {
      const [, log, done] = look.get() ?? [0, 0, 0]
      // It begins anew when all of it is done and nobody reads it; who reads long must not have it tried after each commit.
      if (log < last) due = PAGES
      last = log
      if (running || log < due) return
      due = log + PAGES
      if (log - done > AT_ONCE) onThread()
      else now.all()
    } catch {
      // The disk is full, for one: the next commit tells that.
    }
  }
}
