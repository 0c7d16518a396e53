/** Domain rules: input → rows, and what changed. Knows neither Fastify nor the kernel. */
import { eq } from 'drizzle-orm'
import type { Change, Db } from '../../core/area.ts'
import { alreadyExists, notFound } from '../../core/errors.ts'
import type { Thing, ThingInput } from './schemas.ts'
import { things } from './tables.ts'

export function createThing(tx: Db, { name }: ThingInput): Change<{ status: 'created'; thing: Thing }> {
  if (tx.select().from(things).where(eq(things.name, name)).get()) throw alreadyExists('thing')
  const thing = tx.insert(things).values({ name }).returning().get()
  return {
    result: { status: 'created', thing },
    touch: [],
    events: [{ type: 'AREA.created', resource: `/api/v1/AREA/${thing.id}`, data: thing }],
  }
}

/** The thing with the id that stands in a path; text that is no id names none. */
export function find(db: Db, path: string): Thing {
  const id = /^[1-9][0-9]{0,14}$/.test(path) ? Number(path) : 0
  const thing = db.select().from(things).where(eq(things.id, id)).get()
  if (thing === undefined) throw notFound('thing', id)
  return thing
}

export function deleteThing(tx: Db, path: string): Change<{ status: 'deleted'; id: number }> {
  const { id } = find(tx, path)
  tx.delete(things).where(eq(things.id, id)).run()
  return {
    result: { status: 'deleted', id },
    touch: [],
    events: [{ type: 'AREA.deleted', resource: `/api/v1/AREA/${id}`, data: { id } }],
  }
}
