import type { Db, TypedApp } from '../../core/area.ts'
import { sendOne } from '../../core/transport/etag.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import { createThing, deleteThing, find } from './rules.ts'
import { Thing, ThingCreated, ThingDeleted, ThingInput, ThingList } from './schemas.ts'
import { things } from './tables.ts'

const thingId = ({ params }: { params: unknown }): string => (params as { id: string }).id
/** What a GET answers, and what If-Match is held against. */
const oneThing = (id: string) => (db: Db) => find(db, id)

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
  app.get('/AREA/:id', { schema: { summary: 'One thing', response: { 200: Thing } } }, (request, reply) =>
    sendOne(request, reply, oneThing(thingId(request))(store.read)),
  )
  app.delete(
    '/AREA/:id',
    { schema: { summary: 'Delete a thing', response: { 200: ThingDeleted } } },
    (request, reply) => {
      const id = thingId(request)
      return carryOut(request, reply, 'AREA', (tx) => deleteThing(tx, id), oneThing(id))
    },
  )
}
