import type { TypedApp } from '../../core/area.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import { createThing } from './rules.ts'
import { ThingCreated, ThingInput, ThingList } from './schemas.ts'
import { things } from './tables.ts'

export function routes(app: TypedApp): void {
  const { store } = app.agent
  app.get('/AREA', { schema: { summary: 'All things', response: { 200: ThingList } } }, () => ({
    things: store.read.select().from(things).all(),
  }))
  app.post(
    '/AREA',
    { schema: { summary: 'Add a thing', body: ThingInput, response: { 201: ThingCreated } } },
    async (request, reply) =>
      reply.code(201).send(await carryOut(request, reply, 'AREA', (tx) => createThing(tx, request.body))),
  )
}
