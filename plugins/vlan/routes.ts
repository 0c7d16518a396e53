/** REST of VLAN lockdown. */
import type { TypedApp } from '../../core/area.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import { clearPolicy, list, setPolicy } from './rules.ts'
import * as schema from './schemas.ts'

export function routes(app: TypedApp): void {
  const { store } = app.agent
  app.get('/vlan', { schema: { summary: 'All VLAN policies', response: { 200: schema.PolicyList } } }, () => ({
    vlans: list(store.read),
  }))
  app.post(
    '/vlan',
    {
      schema: {
        summary: 'Lock a VLAN down, or document that it is allowed',
        body: schema.PolicyInput,
        response: { 200: schema.PolicySet, 201: schema.PolicySet },
      },
    },
    async (request, reply) => {
      const set = await carryOut(request, reply, 'vlan', (tx) => setPolicy(tx, request.body))
      return reply.code(set.status === 'created' ? 201 : 200).send(set)
    },
  )
  app.delete(
    '/vlan/:id',
    { schema: { summary: 'Allow a VLAN again', response: { 200: schema.PolicyCleared } } },
    (request, reply) => {
      // Every path parameter is a string.
      const { id } = request.params as { id: string }
      return carryOut(request, reply, 'vlan', (tx) => clearPolicy(tx, id))
    },
  )
}
