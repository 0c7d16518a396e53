/** Replicated rows out of the store and, changed by others, into it. */
import type { Db, EventDraft, Ref } from '../../area.ts'
import {
  type Collection,
  type Follower,
  type FollowUp,
  goesWith,
  Outdated,
  type Row,
  type RowChange,
  replicationBehind,
  type Value,
} from '../../replication.ts'
import { inSlices } from '../../slices.ts'
import { Database } from '../sqlite.ts'
import { condition, listed, pick, quoted, shareOf, statement, valuesOf } from './table.ts'

/** Rows that are read, or deleted, in one go. */
const PAGE = 500

/** All replicated rows as all members read them, in the order of their key; no statement is open between two of them. */
export function* rowsOf(db: Db, collection: Collection, self: string): Generator<Row> {
  const { name, key, columns, outward } = collection
  const keys = listed(key)
  const read = (after: string) =>
    `SELECT ${listed(columns)} FROM ${quoted(name)} AS row WHERE ${condition(collection, 'row')}${after} ORDER BY ${keys} LIMIT ${PAGE}`
  let page = statement(db, read('')).all()
  const next = statement(db, read(` AND (${keys}) > (${key.map(() => '?').join(', ')})`))
  for (;;) {
    for (const row of page) yield outward ? pick(outward(row, self), columns) : row
    const last = page.at(-1)
    if (last === undefined || page.length < PAGE) return
    page = next.all(...valuesOf(last, key))
  }
}

/** A row on its way into the table. */
interface Step {
  collection: Collection
  key: Value[]
  /** All columns as the table has them; undefined: there is no such row. */
  before: Row | undefined
  /** The replicated columns as they shall be; one that its sender does not know yet is left out. undefined: no such row. */
  after: Row | undefined
}

/**
 * Writes rows as another member has changed them, and what goes with them, and answers what follows on this node. To be
 * called in a mutation that is adopted, with the changes of others in their order, each row once, but for rows that this
 * node has changed later. What is as it shall be already is left alone.
 * @throws Outdated where a row shares what no two can with one that stays: this node has changed that one later, when nobody had what
 * it took. Only all rows of a later time tell what has become of both
 */
export async function applyRows(tx: Db, self: string, changes: readonly RowChange[]): Promise<FollowUp> {
  const { collections, keepers, config } = replicationBehind(tx)
  // By collection, each after those that it rests on.
  const steps = new Map<string, Step[]>([...collections.keys()].map((name) => [name, []]))
  await inSlices(changes, (change) => {
    const step = stepOf(tx, self, change)
    if (step) steps.get(change.collection.name)?.push(step)
  })
  const gone = [...steps.values()].reverse().flatMap((all) => all.filter(({ after }) => after === undefined))
  await inSlices(gone, (step) => remove(tx, collections, step))
  const come = [...steps.values()].flatMap((all) => all.filter(({ after }) => after !== undefined))
  // Two rows may have exchanged what no two can share.
  await inSlices(come, (step) => void (sharesAnew(step) && removeRow(tx, step.collection, step.before)))
  await inSlices(come, (step) => write(tx, step))
  return followed(tx, [...gone, ...come], { self, config }, keepers)
}

/** Undefined where nothing differs. */
function stepOf(tx: Db, self: string, { collection, before, after }: RowChange): Step | undefined {
  const { name, key, columns, inward } = collection
  const row = after ?? before
  if (row === undefined) return undefined
  const found = statement(tx, `SELECT * FROM ${quoted(name)} WHERE ${equal(key)}`).get(...valuesOf(row, key))
  const told = columns.filter((column) => column in row)
  const wanted = after && pick(inward ? inward(after, self) : after, told)
  const same = found && wanted && told.every((column) => found[column] === wanted[column])
  return same ? undefined : { collection, key: valuesOf(row, key), before: found, after: wanted }
}

/** With what goes with it, in portions between which others get their turn. */
async function remove(tx: Db, collections: ReadonlyMap<string, Collection>, step: Step): Promise<void> {
  const { collection, key, before } = step
  for (const child of collections.values()) {
    for (const parent of child.parents ?? []) {
      if (parent.collection !== collection.name || !goesWith(child, parent)) continue
      const table = quoted(child.name)
      const portion = statement(
        tx,
        `DELETE FROM ${table} WHERE rowid IN (SELECT rowid FROM ${table} WHERE ${equal(parent.columns)} LIMIT ${PAGE})`,
      )
      while (portion.run(...key).changes === PAGE) await new Promise(setImmediate)
    }
  }
  removeRow(tx, collection, before)
}

function removeRow(tx: Db, { name, key }: Collection, row: Row | undefined): void {
  if (row) statement(tx, `DELETE FROM ${quoted(name)} WHERE ${equal(key)}`).run(...valuesOf(row, key))
}

const sharesAnew = ({ collection: { unique = [] }, before, after }: Step): boolean =>
  before !== undefined &&
  after !== undefined &&
  unique.some((columns) => shareOf(before, columns) !== shareOf(after, columns))

/** The columns that are the node's own stay. */
function write(tx: Db, { collection: { name, key }, before, after }: Step): void {
  if (after === undefined) return
  const row: Row = { ...before, ...after }
  const all = Object.keys(row)
  const rest = Object.keys(after).filter((column) => !key.includes(column))
  const update = rest.map((column) => `${quoted(column)} = excluded.${quoted(column)}`).join(', ')
  const put = statement(
    tx,
    `INSERT INTO ${quoted(name)} (${listed(all)}) VALUES (${all.map(() => '?').join(', ')}) ON CONFLICT (${listed(key)}) DO ${update ? `UPDATE SET ${update}` : 'NOTHING'}`,
  )
  try {
    put.run(...valuesOf(row, all))
  } catch (error) {
    const taken = error instanceof Database.SqliteError && error.code === 'SQLITE_CONSTRAINT_UNIQUE'
    throw taken ? new Outdated(name, error) : error
  }
}

/** Each ref and each event once: where several rows make up one thing, it is told of as it is in the end. */
async function followed(
  tx: Db,
  steps: readonly Step[],
  node: Follower,
  keepers: ReadonlyMap<string, string>,
): Promise<FollowUp> {
  const touch = new Map<string, Ref>()
  const events = new Map<string, EventDraft>()
  await inSlices(steps, async ({ collection, before, after }) => {
    if (collection.follow === undefined || (before ?? after) === undefined) return
    const now = after && current(tx, collection, after)
    const area = keepers.get(collection.name)
    const followUp = await collection.follow(tx, before, now, node)
    for (const ref of followUp.touch) touch.set(`${ref.area}/${ref.id}`, ref)
    for (const event of followUp.events) {
      events.set(`${event.type} ${event.resource}`, { ...(area && { area }), ...event })
    }
  })
  return { touch: [...touch.values()], events: [...events.values()] }
}

const current = (tx: Db, { name, key }: Collection, row: Row): Row | undefined =>
  statement(tx, `SELECT * FROM ${quoted(name)} WHERE ${equal(key)}`).get(...valuesOf(row, key))

const equal = (columns: readonly string[]): string => columns.map((column) => `${quoted(column)} = ?`).join(' AND ')
