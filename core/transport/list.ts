/** Whole collections, however long: a short one is one statement, a long one is put together page by page from one snapshot. */
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

/**
 * Answers with `{[key]: […]}`; the handler returns what this returns. The event loop gets its turn after every page.
 */
export async function sendList<Row>(
  reply: Pick<FastifyReply, 'send' | 'type'>,
  store: Store,
  pages: Pages<Row>,
): Promise<never> {
  const first = pages.page(store.read, undefined)
  const answered =
    first.length < PAGE
      ? reply.send({ [pages.key]: first.flatMap((row) => pages.view(row) ?? []) })
      : reply.type('application/json; charset=utf-8').send(await assemble(store, pages))
  // A handler that returns the reply has answered; Fastify's types know only handlers that return the payload.
  return answered as never
}

async function assemble<Row>(store: Store, { key, page, view }: Pages<Row>): Promise<string> {
  const snapshot = store.snapshot()
  try {
    const parts: string[] = []
    for (let last: Row | undefined; ; ) {
      const rows = page(snapshot.db, last)
      for (const row of rows.flatMap((row) => view(row) ?? [])) parts.push(JSON.stringify(row))
      last = rows.at(-1)
      if (rows.length < PAGE) break
      await new Promise(setImmediate)
    }
    return `{${JSON.stringify(key)}:[${parts.join(',')}]}`
  } finally {
    snapshot.close()
  }
}
