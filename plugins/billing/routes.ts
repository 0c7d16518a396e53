/** REST of billing. A tenant's own key may read; changes are the operator's. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Rule, TypedApp } from '../../core/area.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import { type Carried, carriedThisMonth } from '../flows/offers.ts'
import { limit, monthOf, resume, showState, suspend } from './rules.ts'
import * as schema from './schemas.ts'

const PATH = '/billing/tenants/:id'
/** The router has found the parameter in the path. */
const tenantId = ({ params }: { params: unknown }): string => (params as { id: string }).id

export function routes(app: TypedApp): void {
  const { now, store } = app.agent

  const shown = (state: schema.State, { bytes, p95Mbps }: Carried): schema.Billing => {
    return { ...state, period: monthOf(now()), bytes_total: bytes, gb: bytes / 1e9, p95_mbps: p95Mbps }
  }

  async function carried<const S extends string>(
    request: FastifyRequest,
    reply: FastifyReply,
    status: S,
    rule: Rule<schema.State>,
  ) {
    // Before the change: where it fails nothing has happened.
    const carried = await carriedThisMonth(app, tenantId(request))
    const state = await carryOut(request, reply, 'billing', rule)
    return { status, tenant_id: state.tenant_id, billing: shown(state, carried) }
  }

  app.get(
    PATH,
    {
      config: { after: 'start', access: 'tenant', volatile: true },
      schema: { summary: 'State and traffic of a tenant', response: { 200: schema.OneBilling } },
    },
    async (request) => {
      const state = showState(store.read, tenantId(request))
      return { billing: shown(state, await carriedThisMonth(app, state.tenant_id)) }
    },
  )
  app.post(
    `${PATH}/suspend`,
    {
      schema: {
        summary: 'Suspend a tenant, and block its traffic if asked to',
        body: schema.SuspendInput,
        response: { 200: schema.Done('suspended') },
      },
    },
    (request, reply) => {
      const at = now().toISOString()
      return carried(request, reply, 'suspended', (tx) => suspend(tx, tenantId(request), request.body, at))
    },
  )
  app.post(
    `${PATH}/resume`,
    { schema: { summary: 'End the suspension of a tenant', response: { 200: schema.Done('resumed') } } },
    (request, reply) => {
      const at = now().toISOString()
      return carried(request, reply, 'resumed', (tx) => resume(tx, tenantId(request), at))
    },
  )
  app.post(
    `${PATH}/limit`,
    {
      schema: {
        summary: 'Limit the traffic of a tenant',
        body: schema.LimitInput,
        response: { 200: schema.Done('limited') },
      },
    },
    (request, reply) => carried(request, reply, 'limited', (tx) => limit(tx, tenantId(request), request.body.rate_bps)),
  )
  app.post(
    `${PATH}/unlimit`,
    { schema: { summary: 'End the limit of a tenant', response: { 200: schema.Done('unlimited') } } },
    (request, reply) => carried(request, reply, 'unlimited', (tx) => limit(tx, tenantId(request), 0)),
  )
}
