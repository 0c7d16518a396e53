/** Domain rules: input → rows, and what changed. Knows neither Fastify nor the kernel. */
import { eq } from 'drizzle-orm'
import type { Change, Db } from '../../core/area.ts'
import { alreadyExists } from '../../core/errors.ts'
import type { ThingInput } from './schemas.ts'
import { things } from './tables.ts'

export function createThing(tx: Db, { name }: ThingInput): Change<{ status: 'created'; thing: { id: number; name: string } }> {
  if (tx.select().from(things).where(eq(things.name, name)).get()) throw alreadyExists('thing')
  const thing = tx.insert(things).values({ name }).returning().get()
  return {
    result: { status: 'created', thing },
    touch: [],
    events: [{ type: 'AREA.created', resource: `/api/v1/AREA/${thing.id}`, data: thing }],
  }
}
