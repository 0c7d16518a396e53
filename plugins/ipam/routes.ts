/** REST of IPAM. */
import type { TypedApp } from '../../core/area.ts'
import { sendList } from '../../core/transport/list.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import { toAllocation, toPool } from './offers.ts'
import { queries } from './queries.ts'
import { allocateAddress, createPool, deletePool, releaseAddress } from './rules.ts'
import * as schema from './schemas.ts'
import type { AllocationRow, PoolRow } from './tables.ts'

const AREA = 'ipam'

export function routes(app: TypedApp): void {
  const { config, store } = app.agent
  app.get(
    '/ipam/pools',
    { schema: { summary: 'All pools', querystring: schema.TenantQuery, response: { 200: schema.PoolList } } },
    (request, reply) => {
      const { tenant_id: tenant } = request.query
      return sendList<PoolRow>(reply, store, {
        key: 'pools',
        page(db, last) {
          const after = last?.id ?? 0
          return tenant === undefined
            ? queries(db).poolPage.all({ after })
            : queries(db).poolPageOf.all({ tenant, after })
        },
        view: toPool,
      })
    },
  )
  app.post(
    '/ipam/pools',
    { schema: { summary: 'Add a pool', body: schema.PoolInput, response: { 201: schema.PoolCreated } } },
    async (request, reply) => {
      const max = config.int('max_ip_pools')
      const created = await carryOut(request, reply, AREA, (tx) => createPool(tx, request.body, max))
      return reply.code(201).send(created)
    },
  )
  app.delete(
    '/ipam/pools/:id',
    { schema: { summary: 'Delete a pool and its allocations', response: { 200: schema.PoolDeleted } } },
    (request, reply) =>
      // The router has found the parameter in the path.
      carryOut(request, reply, AREA, (tx) => deletePool(tx, (request.params as { id: string }).id)),
  )
  allocationRoutes(app)
}

function allocationRoutes(app: TypedApp): void {
  const { store } = app.agent
  app.get(
    '/ipam/allocations',
    {
      schema: { summary: 'All allocations', querystring: schema.TenantQuery, response: { 200: schema.AllocationList } },
    },
    (request, reply) => {
      const { tenant_id: tenant } = request.query
      return sendList<AllocationRow>(reply, store, {
        key: 'allocations',
        page(db, last) {
          const after = last?.id ?? 0
          return tenant === undefined
            ? queries(db).allocationPage.all({ after })
            : queries(db).allocationPageOf.all({ tenant, after })
        },
        view: toAllocation,
      })
    },
  )
  app.post(
    '/ipam/allocate',
    {
      schema: {
        summary: 'Take the lowest free address of a pool',
        body: schema.AllocateInput,
        response: { 200: schema.Allocated },
      },
    },
    (request, reply) => carryOut(request, reply, AREA, (tx) => allocateAddress(tx, request.body)),
  )
  app.post(
    '/ipam/release',
    { schema: { summary: 'Give an address back', body: schema.ReleaseInput, response: { 200: schema.Released } } },
    (request, reply) => carryOut(request, reply, AREA, (tx) => releaseAddress(tx, request.body)),
  )
}
