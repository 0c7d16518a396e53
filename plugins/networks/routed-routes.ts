/** REST of routed public addresses. */
import type { TypedApp } from '../../core/area.ts'
import { sendList } from '../../core/transport/list.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import { addressesOf } from '../../dataplane/devices.ts'
import { ROUTED_GATEWAY } from './desired.ts'
import { addressPage } from './pages.ts'
import { createRange, deleteRange, rangeInPath, rangeWithCidr } from './ranges.ts'
import { routedQueries } from './routed-queries.ts'
import type { RoutedAddress } from './schemas.ts'
import * as schema from './schemas.ts'
import { toRange } from './views.ts'

const AREA = 'networks'

export function routedRoutes(app: TypedApp, newId: () => string): void {
  const { config, store } = app.agent
  app.get(
    '/routed-addresses',
    {
      schema: {
        summary: 'All routed ranges and their addresses',
        querystring: schema.RoutedQuery,
        response: { 200: schema.RoutedList },
      },
    },
    (request, reply) => {
      const { tenant_id: tenant } = request.query
      return sendList<RoutedAddress>(reply, store, {
        key: 'addresses',
        head(db) {
          const q = routedQueries(db)
          const rows = tenant === undefined ? q.allRanges.all() : q.rangesOf.all({ tenant })
          return { gateway: ROUTED_GATEWAY, ranges: rows.map(toRange) }
        },
        page: (db, last) => addressPage(db, tenant, last),
        view: (address) => address,
      })
    },
  )
  app.post(
    '/routed-addresses',
    { schema: { summary: 'Add a routed range', body: schema.RangeInput, response: { 201: schema.RangeCreated } } },
    async (request, reply) => {
      const own = await addressesOf(app.agent.plane.devices)
      const creation = { id: newId(), own, max: config.int('max_routed_ranges') }
      const created = await carryOut(request, reply, AREA, (tx) => createRange(tx, request.body, creation))
      return reply.code(201).send(created)
    },
  )
  app.delete(
    '/routed-addresses/:range',
    { schema: { summary: 'Delete a routed range, by id or prefix', response: { 200: schema.RangeDeleted } } },
    (request, reply) => {
      // The router has found the parameter in the path.
      const { range } = request.params as { range: string }
      return carryOut(request, reply, AREA, (tx) => deleteRange(tx, rangeInPath(tx, range)))
    },
  )
  app.delete(
    '/routed-addresses',
    {
      schema: {
        summary: 'Delete a routed range, by prefix',
        querystring: schema.CidrQuery,
        response: { 200: schema.RangeDeleted },
      },
    },
    (request, reply) => carryOut(request, reply, AREA, (tx) => deleteRange(tx, rangeWithCidr(tx, request.query.cidr))),
  )
}
