/**
 * Which replicated rows a mutation changes. While this node is in a cluster, TEMP triggers on the writer connection note it
 * in a TEMP table; otherwise there are neither, and nothing is asked.
 */
import type { Db } from '../../area.ts'
import type { Collection, Replication, Replicator, Row, RowChange } from '../../replication.ts'
import { inSlices } from '../../slices.ts'
import { type Noted, openFold } from './fold.ts'
import { condition, connectionOf, quoted, statement } from './table.ts'

const CHANGES = 'replicated_changes'
const SWITCH = 'replicated_capture'
/** Notes that are read in one go. */
const PAGE = 500

export interface Capture {
  /**
   * Prepares for a mutation, however the one before ended. Outside of a transaction. `own`: false where it takes over what others
   * have changed.
   */
  begin(own: boolean): void
  /** What was changed since, as all members read it; once. In the transaction of the mutation. */
  taken(): Promise<RowChange[]>
}

export function openCapture(write: Db, { collections, replicator }: Replication): Capture {
  const connection = connectionOf(write)
  let installed = false
  let on: Replicator | undefined

  function install(): void {
    connection.exec(
      `CREATE TEMP TABLE ${CHANGES} (number INTEGER PRIMARY KEY, collection TEXT NOT NULL, before TEXT, after TEXT);
       CREATE TEMP TABLE ${SWITCH} (here INTEGER PRIMARY KEY)`,
    )
    for (const collection of collections.values()) for (const text of triggersOf(collection)) connection.exec(text)
  }

  function uninstall(): void {
    for (const collection of collections.values()) {
      for (const occasion of OCCASIONS) connection.exec(`DROP TRIGGER temp.${triggerOf(collection, occasion)}`)
    }
    connection.exec(`DROP TABLE temp.${CHANGES}; DROP TABLE temp.${SWITCH}`)
  }

  /** What was noted, by collection; no statement is open between two of them. */
  function* notes(): Generator<[collection: string, Noted]> {
    const page = statement(
      write,
      `SELECT number, before, after FROM ${CHANGES} WHERE collection = ? AND number > ? ORDER BY number LIMIT ${PAGE}`,
    )
    for (const name of collections.keys()) {
      for (let number = 0; ; ) {
        const rows = page.all(name, number)
        for (const row of rows) yield [name, notedIn(row)]
        number = Number(rows.at(-1)?.number ?? 0)
        if (rows.length < PAGE) break
      }
    }
  }

  return {
    begin(own) {
      const cluster = replicator()
      const active = cluster?.active() === true
      if (active !== installed) connection.transaction(active ? install : uninstall)()
      installed = active
      on = active && own ? cluster : undefined
      if (!active) return
      for (const table of [CHANGES, SWITCH]) statement(write, `DELETE FROM ${table}`).run()
      if (own) statement(write, `INSERT INTO ${SWITCH} VALUES (1)`).run()
    },
    async taken() {
      if (on === undefined) return []
      const fold = openFold(collections, on.self)
      // One run of slices over all pages: each page by itself is too short to give others their turn.
      await inSlices(notes(), ([name, note]) => fold.add(name, note))
      statement(write, `DELETE FROM ${CHANGES}`).run()
      return fold.changes()
    },
  }
}

const OCCASIONS = ['insert', 'update', 'delete'] as const
type Occasion = (typeof OCCASIONS)[number]
const triggerOf = ({ name }: Collection, occasion: Occasion): string => quoted(`replicated_${name}_${occasion}`)

function triggersOf(collection: Collection): string[] {
  const { name, columns } = collection
  const object = (alias: string) =>
    `json_object(${columns.map((column) => `'${column}', ${alias}.${quoted(column)}`).join(', ')})`
  const row = (alias: string) =>
    collection.where === undefined
      ? object(alias)
      : `CASE WHEN ${condition(collection, alias)} THEN ${object(alias)} END`
  const [before, after] = [row('OLD'), row('NEW')]
  const noted: Record<Occasion, [when: string, before: string, after: string]> = {
    insert: ['INSERT', 'NULL', after],
    update: [`UPDATE OF ${columns.map(quoted).join(', ')}`, before, after],
    delete: ['DELETE', before, 'NULL'],
  }
  return OCCASIONS.map((occasion) => {
    const [when, was, is] = noted[occasion]
    return `CREATE TEMP TRIGGER ${triggerOf(collection, occasion)} AFTER ${when} ON main.${quoted(name)}
      WHEN EXISTS (SELECT 1 FROM ${SWITCH})
      BEGIN INSERT INTO ${CHANGES} (collection, before, after) VALUES ('${name}', ${was}, ${is}); END`
  })
}

function notedIn({ before, after }: Row): Noted {
  const read = (text: Row[string] | undefined) => (text == null ? undefined : (JSON.parse(String(text)) as Row))
  return { before: read(before), after: read(after) }
}
