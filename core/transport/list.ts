/** Whole collections, however long: a short one is one statement, a long one is put together page by page from one snapshot. */
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import type { Db } from '../area.ts'
import type { Store } from '../state/store.ts'

export const PAGE = 500
/** An answer below so many bytes leaves whole. */
const SMALL = 4096

export interface Pages<Row> {
  /** Key under which the collection stands in the answer. */
  key: string
  /** What the answer says before the collection, seen at the same moment. */
  head?(db: Db): object
  /** The same where it may be long, and takes its time. */
  longHead?(db: Db): Promise<object>
  /** Rows of a page, where one costs more than a row of a table; default PAGE. */
  size?: number
  /** At most that many rows after `last` (from the start without one), in the order of the list; fewer end it. */
  page(db: Db, last: Row | undefined): Row[]
  /** A row as the wire shows it; undefined leaves it out. */
  view(row: Row): object | undefined
}

/**
 * Answers with `{[key]: […]}`; the handler returns what this returns. The event loop gets its turn after every page, and
 * a long answer leaves in pieces, as fast as the client takes them.
 */
export async function sendList<Row>(
  reply: Pick<FastifyReply, 'send' | 'type' | 'header'>,
  store: Store,
  pages: Pages<Row>,
): Promise<never> {
  const first = pages.page(store.read, undefined)
  const answered =
    first.length < (pages.size ?? PAGE) && pages.longHead === undefined
      ? reply.send({ ...pages.head?.(store.read), [pages.key]: first.flatMap((row) => pages.view(row) ?? []) })
      : sendPieces(reply, await assemble(store, pages))
  // A handler that returns the reply has answered; Fastify's types know only handlers that return the payload.
  return answered as never
}

function sendPieces(reply: Pick<FastifyReply, 'send' | 'type' | 'header'>, pieces: readonly Buffer[]): unknown {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0)
  reply.type('application/json; charset=utf-8')
  // Little may be left of many rows.
  if (length < SMALL) return reply.send(Buffer.concat(pieces).toString())
  return reply.header('content-length', length).send(Readable.from(pieces, { objectMode: false }))
}

/** The whole answer is made before any of it is sent: the snapshot is held briefly, and what fails is an error's answer. */
async function assemble<Row>(store: Store, pages: Pages<Row>): Promise<Buffer[]> {
  const { key, page, view, size = PAGE } = pages
  const snapshot = store.snapshot()
  try {
    const head = { ...pages.head?.(snapshot.db), ...(await pages.longHead?.(snapshot.db)) }
    const before = JSON.stringify(head).slice(0, -1)
    const pieces = [Buffer.from(`${before}${before === '{' ? '' : ','}${JSON.stringify(key)}:[`)]
    let separator = ''
    for (let last: Row | undefined; ; ) {
      const rows = page(snapshot.db, last)
      const texts = rows.flatMap((row) => {
        const shown = view(row)
        return shown === undefined ? [] : JSON.stringify(shown)
      })
      if (texts.length > 0) {
        pieces.push(Buffer.from(separator + texts.join(',')))
        separator = ','
      }
      last = rows.at(-1)
      if (rows.length < size) break
      await new Promise(setImmediate)
    }
    pieces.push(Buffer.from(']}'))
    return pieces
  } finally {
    snapshot.close()
  }
}
