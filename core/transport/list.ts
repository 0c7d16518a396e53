/** Whole collections, however long: a short one is one statement, a long one is sent page by page from one snapshot. */
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import type { Db } from '../area.ts'
import type { Store } from '../state/store.ts'

export const PAGE = 500

export interface Pages<Row> {
  /** Key under which the collection stands in the answer. */
  key: string
  /** At most PAGE rows after `last` (from the start without one), in the order of the list. */
  page(db: Db, last: Row | undefined): Row[]
  /** A row as the wire shows it; undefined leaves it out. */
  view(row: Row): object | undefined
}

export function sendList<Row>(reply: Pick<FastifyReply, 'send' | 'type'>, store: Store, pages: Pages<Row>): void {
  const first = pages.page(store.read, undefined)
  if (first.length < PAGE) reply.send({ [pages.key]: first.flatMap((row) => pages.view(row) ?? []) })
  else reply.type('application/json; charset=utf-8').send(Readable.from(chunks(store, pages), { objectMode: false }))
}

async function* chunks<Row>(store: Store, { key, page, view }: Pages<Row>): AsyncGenerator<string> {
  const snapshot = store.snapshot()
  try {
    yield `{${JSON.stringify(key)}:[`
    let separator = ''
    for (let last: Row | undefined; ; ) {
      const rows = page(snapshot.db, last)
      const text = rows.flatMap((row) => view(row) ?? []).map((row) => JSON.stringify(row))
      if (text.length > 0) yield separator + text.join(',')
      if (text.length > 0) separator = ','
      last = rows.at(-1)
      if (rows.length < PAGE) break
      await new Promise(setImmediate)
    }
    yield ']}'
  } finally {
    snapshot.close()
  }
}
