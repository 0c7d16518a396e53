/**
 * The SQLite store: one writer connection that holds the open transaction of the pipeline, and one reader that sees only
 * what is committed. WAL with synchronous=FULL: a commit is on disk when it returns.
 */
import { chmodSync, closeSync, existsSync, mkdirSync, openSync } from 'node:fs'
import { join } from 'node:path'
import type Sqlite from 'better-sqlite3'
import { drizzle } from 'drizzle-orm/better-sqlite3'
import { migrate } from 'drizzle-orm/better-sqlite3/migrator'
import { readMigrationFiles } from 'drizzle-orm/migrator'
import type { Db } from '../area.ts'
import { openCheckpoints } from './checkpoint.ts'
import { Database } from './sqlite.ts'

export interface Store {
  /** Sees the open transaction. For the pipeline only. */
  write: Db
  /** Sees what is committed. For everything else. */
  read: Db
  /** A connection of its own that goes on seeing what is committed now. Close it soon: it keeps the WAL from shrinking. */
  snapshot(): { db: Db; close(): void }
  begin(): void
  commit(): void
  /** `cause`: the error that it follows, for whoever watches the store. */
  rollback(cause?: unknown): void
  /** Applies the migrations in `<dir>/migrations`, journal of its own per name. @throws Error when a later version has migrated it */
  migrate(name: string, dir: string): void
  close(): void
}

/** Opens or creates `stratum.db` below `stateDir`; `:memory:` is refused because two connections must meet in it. */
export function openStore(stateDir: string): Store {
  mkdirSync(stateDir, { recursive: true, mode: 0o700 })
  const file = join(stateDir, 'stratum.db')
  keepPrivate(file)
  const writer = new Database(file)
  writer.pragma('journal_mode = WAL')
  writer.pragma('synchronous = FULL')
  writer.pragma('foreign_keys = ON')
  writer.pragma('busy_timeout = 5000')
  // KiB. Pages beyond it go into the WAL while a large transaction is being made, in slices; COMMIT has the rest to write, at once.
  writer.pragma('cache_size = -2000')
  const reader = new Database(file, { readonly: true })
  const [begin, commit, rollback] = [
    writer.prepare('BEGIN IMMEDIATE'),
    writer.prepare('COMMIT'),
    writer.prepare('ROLLBACK'),
  ]
  const write = drizzle(writer)
  const checkpoint = openCheckpoints(writer)
  return {
    write,
    read: drizzle(reader),
    snapshot() {
      const connection = new Database(file, { readonly: true })
      connection.exec('BEGIN')
      return { db: drizzle(connection), close: () => connection.close() }
    },
    begin: () => void begin.run(),
    commit() {
      commit.run()
      checkpoint()
    },
    rollback: () => {
      if (writer.inTransaction) rollback.run()
    },
    migrate(name, dir) {
      const folder = join(dir, 'migrations')
      if (!existsSync(folder)) return
      const migrationsTable = `__migrations_${name}`
      const known = readMigrationFiles({ migrationsFolder: folder }).at(-1)?.folderMillis ?? 0
      if (lastMigration(writer, migrationsTable) > known) {
        throw new Error(
          `${file} was written by a later version (its tables of ${name}): install that version again, or put back the copy of ${stateDir} that was made before the upgrade`,
        )
      }
      migrate(write, { migrationsFolder: folder, migrationsTable })
    },
    close() {
      reader.close()
      writer.close()
    },
  }
}

/** When the newest of the applied migrations was written, ms since 1970; 0 when none is. What this version does not know, drizzle passes over. */
function lastMigration(connection: Sqlite.Database, table: string): number {
  if (!connection.prepare("select 1 from sqlite_master where type = 'table' and name = ?").get(table)) return 0
  const { last } = connection.prepare(`select max(created_at) as last from "${table}"`).get() as { last: unknown }
  return Number(last ?? 0)
}

/**
 * There are secrets in it, so only its owner may read it. SQLite gives its WAL the mode of the database. One that exists is not opened here:
 * closing it would end the locks of another connection of this process (fcntl(2)).
 */
function keepPrivate(file: string): void {
  if (!existsSync(file)) closeSync(openSync(file, 'a', 0o600))
  for (const path of [file, `${file}-wal`, `${file}-shm`]) if (existsSync(path)) chmodSync(path, 0o600)
}
