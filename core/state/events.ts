/** The outbox: events are written in the transaction of the change they tell of, so neither can be without the other. */
import { randomUUID } from 'node:crypto'
import { eq, gt, lte, max, min, sql } from 'drizzle-orm'
import type { Db, EventDraft } from '../area.ts'
import { inSlices } from '../slices.ts'
import { prepared } from './prepared.ts'
import { events, marks } from './tables.ts'

export interface Actor {
  kind: 'token' | 'operator' | 'tenant' | 'cli' | 'system'
  label: string
}
/** Who caused a change and in which request. */
export interface Origin {
  actor: Actor
  requestId: string
}
export const system = (label: string): Origin => ({ actor: { kind: 'system', label }, requestId: randomUUID() })

/** An event as the stream sends it (D110). */
export interface Event {
  v: 1
  id: number
  time: string
  type: string
  area: string
  resource: string
  actor: Actor
  request_id: string
  data: unknown
}

export interface Outbox {
  /** Id of this sequence of events; a restored or new database has another. */
  readonly stream: string
  /** Appends inside the open transaction; returns the last id, or undefined when there was nothing to append. */
  append(tx: Db, area: string, origin: Origin, drafts: readonly EventDraft[]): Promise<number | undefined>
  /** Tells the listeners that events up to some id are committed. */
  wake(): void
  onWake(listener: () => void): () => void
  /** Committed events after `since`, oldest first. */
  after(since: number, limit: number): Event[]
  /** First and last id kept; both 0 when there is none. */
  bounds(): { oldest: number; latest: number }
}

/** Events that are deleted in one go. */
const PORTION = 500

const queries = prepared((db) => ({
  last: db
    .select({ id: max(events.id) })
    .from(events)
    .prepare(),
  bounds: db
    .select({ oldest: min(events.id), latest: max(events.id) })
    .from(events)
    .prepare(),
  insert: db
    .insert(events)
    .values({
      id: sql.placeholder('id'),
      time: sql.placeholder('time'),
      type: sql.placeholder('type'),
      area: sql.placeholder('area'),
      resource: sql.placeholder('resource'),
      actor: sql.placeholder('actor'),
      requestId: sql.placeholder('requestId'),
      data: sql.placeholder('data'),
    })
    .prepare(),
  prune: db
    .delete(events)
    .where(lte(events.id, sql.placeholder('upTo')))
    .limit(PORTION)
    .prepare(),
  after: db
    .select()
    .from(events)
    .where(gt(events.id, sql.placeholder('since')))
    .orderBy(events.id)
    .limit(sql.placeholder('limit'))
    .prepare(),
}))

/** `keep`: how many events are kept; `written` is told how many an area has appended. */
export function openOutbox(
  write: Db,
  read: Db,
  keep: () => number,
  now: () => Date,
  written: (area: string, count: number) => void = () => {},
): Outbox {
  const listeners = new Set<() => void>()
  const stream = streamId(write)
  return {
    stream,
    async append(tx, area, origin, drafts) {
      if (drafts.length === 0) return undefined
      const q = queries(tx)
      const time = now().toISOString()
      const actor = JSON.stringify(origin.actor)
      const kept = drafts.slice(-keep())
      let id = (q.last.get()?.id ?? 0) + drafts.length - kept.length
      await inSlices(kept, ({ type, area: declaredBy = area, resource, data, origin: by = origin }) => {
        id++
        const told = { type, area: declaredBy, resource, data: JSON.stringify(data) }
        const row = {
          id,
          time,
          actor: by === origin ? actor : JSON.stringify(by.actor),
          requestId: by.requestId,
          ...told,
        }
        q.insert.run(row)
      })
      while (q.prune.run({ upTo: id - keep() }).changes === PORTION) await new Promise(setImmediate)
      written(area, drafts.length)
      return id
    },
    wake() {
      for (const listener of listeners) listener()
    },
    onWake(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    after: (since, limit) =>
      queries(read)
        .after.all({ since, limit })
        .map(({ requestId, actor, data, ...row }) => ({
          v: 1,
          ...row,
          actor: JSON.parse(actor) as Actor,
          request_id: requestId,
          data: JSON.parse(data) as unknown,
        })),
    bounds() {
      const { oldest, latest } = queries(read).bounds.get() ?? {}
      return { oldest: oldest ?? 0, latest: latest ?? 0 }
    },
  }
}

function streamId(db: Db): string {
  const found = db.select().from(marks).where(eq(marks.name, 'event_stream')).get()
  if (found) return found.value
  const value = randomUUID()
  db.insert(marks).values({ name: 'event_stream', value }).run()
  return value
}
