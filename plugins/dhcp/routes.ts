/** REST of leases; reservations and early releases stand over the control socket only (dhcp-05, dhcp-06). */
import type { TypedApp } from '../../core/area.ts'
import { sendList } from '../../core/transport/list.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import { release, toLease } from './leases.ts'
import { leasePage } from './queries.ts'
import { everyReservation, reserve, unreserve } from './rules.ts'
import * as schema from './schemas.ts'
import type { LeaseRow } from './tables.ts'

const AREA = 'dhcp'

export function routes(app: TypedApp): void {
  const { now, store } = app.agent
  app.get(
    '/dhcp/leases',
    {
      // The responder gives leases while there is no agent: they are stored at its start.
      config: { after: 'start' },
      schema: {
        summary: 'Leases of all networks that are or were served over DHCP',
        querystring: schema.LeaseQuery,
        response: { 200: schema.LeaseList },
      },
    },
    (request, reply) => {
      const { state } = request.query
      const at = now()
      return sendList<LeaseRow>(reply, store, {
        key: 'leases',
        page: (db, last) => leasePage(db, state, Math.floor(at.getTime() / 1000), last),
        view: (row) => toLease(row, at),
      })
    },
  )
}

export function control(app: TypedApp): void {
  const { now, store } = app.agent
  app.get('/reservations', () => ({ reservations: everyReservation(store.read) }))
  app.post('/reservations', { schema: { body: schema.ReservationInput } }, (request, reply) => {
    const at = now().toISOString()
    return carryOut(request, reply, AREA, (tx) => reserve(tx, request.body, at))
  })
  app.delete(
    '/reservations/:which',
    { schema: { params: schema.Which, querystring: schema.InNetwork } },
    (request, reply) =>
      carryOut(request, reply, AREA, (tx) => unreserve(tx, request.params.which, request.query.network)),
  )
  app.post('/releases', { schema: { body: schema.ReleaseInput } }, (request, reply) => {
    const at = now()
    return carryOut(request, reply, AREA, (tx) => release(tx, request.body, at))
  })
}
