/** REST of static routes and policy rules. */
import type { TypedApp } from '../../core/area.ts'
import { ApiError, badRequest } from '../../core/errors.ts'
import { sendList } from '../../core/transport/list.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import { stored } from './input.ts'
import { createRule, deleteRule } from './policies.ts'
import { queries } from './queries.ts'
import { createRoute, deleteRoute } from './rules.ts'
import * as schema from './schemas.ts'
import type { RouteRow } from './tables.ts'

const AREA = 'routes'
/** Every path parameter is a string. */
const idOf = ({ params }: { params: unknown }): string => (params as { id: string }).id

export function routes(app: TypedApp): void {
  const { store, config } = app.agent

  app.get(
    '/routes',
    { schema: { summary: 'All routes', querystring: schema.RouteQuery, response: { 200: schema.RouteList } } },
    (request, reply) => {
      const table = readFilter(request.query.table)
      return sendList<RouteRow>(reply, store, {
        key: 'routes',
        page: (db, last) => {
          const after = last?.id ?? 0
          return table === undefined
            ? queries(db).routePage.all({ after })
            : queries(db).routePageOfTable.all({ table, after })
        },
        view: (row) => row,
      })
    },
  )
  app.post(
    '/routes',
    { schema: { summary: 'Add a route', body: schema.RouteInput, response: { 201: schema.RouteCreated } } },
    async (request, reply) => {
      const max = config.int('max_routes')
      const created = carryOut(request, reply, AREA, (tx) => createRoute(tx, request.body, max))
      return reply.code(201).send(await asBadRequest(created))
    },
  )
  app.delete(
    '/routes/:id',
    { schema: { summary: 'Delete a route', response: { 200: schema.Deleted } } },
    (request, reply) => carryOut(request, reply, AREA, (tx) => deleteRoute(tx, idOf(request))),
  )
  app.get('/routes/rules', { schema: { summary: 'All policy rules', response: { 200: schema.RuleList } } }, () => ({
    rules: queries(store.read).allRules.all(),
  }))
  app.post(
    '/routes/rules',
    { schema: { summary: 'Add a policy rule', body: schema.RuleInput, response: { 201: schema.RuleCreated } } },
    async (request, reply) => {
      const max = config.int('max_policy_rules')
      const created = carryOut(request, reply, AREA, (tx) => createRule(tx, request.body, max))
      return reply.code(201).send(await asBadRequest(created))
    },
  )
  app.delete(
    '/routes/rules/:id',
    { schema: { summary: 'Delete a policy rule', response: { 200: schema.Deleted } } },
    (request, reply) => carryOut(request, reply, AREA, (tx) => deleteRule(tx, idOf(request))),
  )
}

/** What the kernel refuses of a route is what the client asked for, where in other areas it is a conflict (D59). */
async function asBadRequest<T>(created: Promise<T>): Promise<T> {
  try {
    return await created
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'KERNEL_REFUSED') throw error
    throw new ApiError(400, error.code, error.message, {}, error)
  }
}

/** A table that no route can be in is a filter that none passes (D15). */
function readFilter(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const table = Number(text)
  if (table > schema.MAX_U32) throw badRequest(`table: must be <= ${schema.MAX_U32}`)
  return stored(table)
}
