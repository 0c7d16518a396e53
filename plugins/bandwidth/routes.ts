/** REST of limits, pools and quotas. */
import type { TypedApp } from '../../core/area.ts'
import { sendList } from '../../core/transport/list.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import { stepwise } from '../../dataplane/slices.ts'
import { readMac } from './input.ts'
import { type Bounds, deleteLimit, limitOfMac, putLimit, toLimit } from './limits.ts'
import { allPools, deleteMember, deletePool, putMember, putPool } from './pools.ts'
import { queries } from './queries.ts'
import { type Counting, deleteQuota, findQuota, putQuota, toQuota } from './quotas.ts'
import * as schema from './schemas.ts'
import type { LimitRow, QuotaRow } from './tables.ts'

const AREA = 'bandwidth'
/** Every path parameter is a string. */
const param = ({ params }: { params: unknown }, name: 'id' | 'mac'): string =>
  (params as Record<string, string | undefined>)[name] ?? ''

export function routes(app: TypedApp): void {
  const { config, store, plane, now, licence } = app.agent

  const gbps = (): number => {
    const view = licence.view()
    return view.installed ? view.max_bandwidth_gbps : 0
  }
  const bounds = (what: 'max_limits' | 'max_bandwidth_pools'): Bounds => ({ gbps: gbps(), max: config.int(what) })
  const counting = (): Counting => ({ usageOf: (quota) => plane.shaping.usage(quota), now: now() })

  app.get(
    '/bandwidth',
    {
      schema: {
        summary: 'All limits and pools; with ?mac= the limit of that MAC',
        querystring: schema.MacQuery,
        response: { 200: schema.AnyOverview },
      },
    },
    (request, reply) => {
      const { mac } = request.query
      if (mac !== undefined) return limitOfMac(store.read, mac) as never
      return sendList<LimitRow>(reply, store, {
        key: 'limits',
        longHead: async (db) => ({ pools: await stepwise(allPools(db)) }),
        page: (db, last) => queries(db).limitPage.all({ after: last?.seq ?? 0 }),
        view: toLimit,
      })
    },
  )
  app.post(
    '/bandwidth',
    {
      schema: {
        summary: 'Limit what a MAC sends and gets, or change its limit',
        body: schema.LimitInput,
        response: { 200: schema.LimitStored },
      },
    },
    (request, reply) => carryOut(request, reply, AREA, (tx) => putLimit(tx, request.body, bounds('max_limits'))),
  )
  app.post(
    '/bandwidth/pools',
    {
      schema: {
        summary: 'Make a pool that several MACs share, or change it',
        body: schema.PoolInput,
        response: { 200: schema.PoolStored },
      },
    },
    (request, reply) =>
      carryOut(request, reply, AREA, (tx) => putPool(tx, request.body, bounds('max_bandwidth_pools'))),
  )
  app.post(
    '/bandwidth/pools/members',
    {
      schema: {
        summary: 'Add a MAC to a pool, or change its ceiling there',
        body: schema.MemberInput,
        response: { 200: schema.MemberStored },
      },
    },
    (request, reply) => carryOut(request, reply, AREA, (tx) => putMember(tx, request.body, gbps())),
  )
  app.get(
    '/bandwidth/quotas',
    {
      config: { after: 'plane', volatile: true },
      schema: { summary: 'All quotas', querystring: schema.MacQuery, response: { 200: schema.QuotaList } },
    },
    (request, reply) => {
      const only = request.query.mac === undefined ? undefined : readMac(request.query.mac, 'mac')
      const at = counting()
      return sendList<QuotaRow>(reply, store, {
        key: 'quotas',
        page: (db, last) => {
          if (only === undefined) return queries(db).quotaPage.all({ after: last?.seq ?? 0 })
          return last ? [] : queries(db).quotaOf.all({ mac: only })
        },
        view: (row) => toQuota(row, at),
      })
    },
  )
  app.post(
    '/bandwidth/quotas',
    {
      schema: {
        summary: 'Count what a MAC sends and gets in a month, and what happens above a limit',
        body: schema.QuotaInput,
        response: { 200: schema.QuotaStored },
      },
    },
    (request, reply) => {
      const max = config.int('max_quotas')
      return carryOut(request, reply, AREA, (tx) => putQuota(tx, request.body, counting(), max))
    },
  )
  app.get(
    '/bandwidth/quotas/:mac',
    {
      config: { after: 'plane', volatile: true },
      schema: { summary: 'The quota of a MAC', response: { 200: schema.OneQuota } },
    },
    async (request) => ({ quota: toQuota(findQuota(store.read, param(request, 'mac')), counting()) }),
  )
  app.delete(
    '/bandwidth/quotas/:mac',
    { schema: { summary: 'Delete the quota of a MAC', response: { 200: schema.QuotaGone } } },
    (request, reply) => carryOut(request, reply, AREA, (tx) => deleteQuota(tx, param(request, 'mac'))),
  )
  app.delete(
    '/bandwidth/:id',
    { schema: { summary: 'Delete a limit: its MAC becomes unshaped', response: { 200: schema.Gone } } },
    (request, reply) => carryOut(request, reply, AREA, (tx) => deleteLimit(tx, param(request, 'id'))),
  )
  app.delete(
    '/bandwidth/pools/:id',
    { schema: { summary: 'Delete a pool: its members become unshaped', response: { 200: schema.Gone } } },
    (request, reply) => carryOut(request, reply, AREA, (tx) => deletePool(tx, param(request, 'id'))),
  )
  app.delete(
    '/bandwidth/pools/:id/members/:mac',
    { schema: { summary: 'Take a MAC out of a pool: it becomes unshaped', response: { 200: schema.MemberGone } } },
    (request, reply) =>
      carryOut(request, reply, AREA, (tx) => deleteMember(tx, param(request, 'id'), param(request, 'mac'))),
  )
}
