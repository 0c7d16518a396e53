/** REST of MAC bindings. */
import type { TypedApp } from '../../core/area.ts'
import { sendList } from '../../core/transport/list.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import { createBinding, deleteBinding, page, toBinding } from './rules.ts'
import * as schema from './schemas.ts'
import type { Row } from './tables.ts'

export function routes(app: TypedApp): void {
  const { store, config } = app.agent
  app.get(
    '/macbind',
    { schema: { summary: 'All MAC bindings', response: { 200: schema.BindingList } } },
    (_request, reply) =>
      sendList<Row>(reply, store, {
        key: 'bindings',
        page: (db, last) => page(db, last?.id ?? 0),
        view: toBinding,
      }),
  )
  app.post(
    '/macbind',
    {
      schema: {
        summary: 'Bind a MAC to a port',
        body: schema.BindingInput,
        response: { 201: schema.BindingCreated },
      },
    },
    async (request, reply) => {
      const max = config.int('max_mac_bindings')
      return reply
        .code(201)
        .send(await carryOut(request, reply, 'macbind', (tx) => createBinding(tx, request.body, max)))
    },
  )
  app.delete(
    '/macbind/:mac',
    { schema: { summary: 'Remove the binding of a MAC', response: { 200: schema.BindingDeleted } } },
    (request, reply) => {
      // Every path parameter is a string.
      const { mac } = request.params as { mac: string }
      return carryOut(request, reply, 'macbind', (tx) => deleteBinding(tx, mac))
    },
  )
}
