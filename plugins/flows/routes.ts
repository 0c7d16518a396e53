/** REST of flows and accounting. All of it is measured, nothing can be changed. */
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import type { TypedApp } from '../../core/area.ts'
import { badRequest } from '../../core/errors.ts'
import type { FlowFilter } from '../../dataplane/bpf/flow/read.ts'
import { addressBytes, addressText } from '../../dataplane/netlink/inet.ts'
import { billingOf, percentileOf, summaryOf } from './accounts.ts'
import { answered } from './answered.ts'
import { csvOf, fileName, jsonOf, limited } from './listing.ts'
import { protocolNumber } from './protocols.ts'
import * as schema from './schemas.ts'
import { statsInTurn } from './stats.ts'
import { windowOf } from './window.ts'

const JSON_TYPE = 'application/json; charset=utf-8'

export function routes(app: TypedApp): void {
  const { now, plane } = app.agent
  const statsOf = statsInTurn()

  app.get(
    '/flows',
    {
      config: { after: 'plane', volatile: true, personal: true },
      schema: { summary: 'Flows, all or some', querystring: schema.FlowQuery, response: { 200: schema.FlowList } },
    },
    ({ query }, reply) => stream(reply.type(JSON_TYPE), jsonOf(chosen(query))),
  )
  app.get(
    '/flows/stats',
    {
      config: { after: 'plane', volatile: true, personal: true },
      schema: { summary: 'Sums over all flows, and who talks most', response: { 200: schema.OneStats } },
    },
    async () => ({ stats: await statsOf(() => plane.traffic.flows()) }),
  )
  app.get(
    '/flows/export',
    {
      config: { after: 'plane', volatile: true, personal: true },
      schema: { summary: 'Flows as a file', querystring: schema.ExportQuery, response: { 200: schema.FlowList } },
    },
    ({ query }, reply) => {
      const { format = 'json' } = query
      reply.header('content-disposition', `attachment; filename="${fileName(now(), format)}"`)
      return format === 'csv'
        ? stream(reply.type('text/csv; charset=utf-8'), csvOf(chosen(query)))
        : stream(reply.type(JSON_TYPE), jsonOf(chosen(query)))
    },
  )
  app.get(
    '/accounting/summary',
    {
      config: { after: 'start', volatile: true, personal: true },
      schema: {
        summary: 'Traffic of the node in a window',
        querystring: schema.WindowQuery,
        response: { 200: schema.OneSummary },
      },
    },
    async ({ query }) => {
      const window = windowOf(query, now())
      return { summary: await answered(app, (db) => summaryOf(db, window)) }
    },
  )
  app.get(
    '/accounting/billing',
    {
      config: { after: 'start', volatile: true, personal: true },
      schema: {
        summary: 'Traffic and cost of each MAC in a window',
        querystring: schema.BillingQuery,
        response: { 200: schema.OneBilling },
      },
    },
    async ({ query }) => {
      const [window, rate] = [windowOf(query, now()), rateOf(query.rate)]
      return { billing: await answered(app, (db) => billingOf(db, window, rate)) }
    },
  )
  app.get(
    '/accounting/95th',
    {
      config: { after: 'start', volatile: true, personal: true },
      schema: {
        summary: '95th percentile of the node in a window, each way',
        querystring: schema.WindowQuery,
        response: { 200: schema.OnePercentile },
      },
    },
    async ({ query }) => {
      const window = windowOf(query, now())
      return { percentile_95th: await answered(app, (db) => percentileOf(db, window)) }
    },
  )

  function chosen({ limit, ...query }: schema.FlowQuery) {
    const flows = plane.traffic.flows(filterOf(query))
    return limit === undefined ? flows : limited(flows, Number(limit))
  }
}

/** Answers piece by piece, as fast as the client takes them. What fails before there is a flow is an error's answer. */
async function stream(reply: FastifyReply, pieces: AsyncGenerator<Buffer>): Promise<never> {
  const before: Buffer[] = []
  for (let next = await pieces.next(); !next.done; next = await pieces.next()) {
    before.push(next.value)
    if (before.length > 1) break
  }
  async function* all() {
    yield* before
    yield* pieces
  }
  // A handler that returns the reply has answered; Fastify's types know only handlers that return the payload.
  return reply.send(Readable.from(all(), { objectMode: false })) as never
}

/** @throws ApiError 400 */
function filterOf({ state, ip, protocol, port }: Omit<schema.FlowQuery, 'limit'>): FlowFilter {
  const number = protocol === undefined ? undefined : protocolNumber(protocol)
  if (protocol !== undefined && number === undefined)
    throw badRequest('protocol: must be a name such as tcp, or 0 to 255')
  if (port !== undefined && Number(port) > 65_535) throw badRequest('port: must be at most 65535')
  return {
    state,
    ip: ip === undefined ? undefined : canonical(ip),
    protocol: number,
    port: port === undefined ? undefined : Number(port),
  }
}

function canonical(ip: string): string {
  try {
    return addressText(addressBytes(ip))
  } catch {
    throw badRequest('ip: must be an IPv4 or IPv6 address')
  }
}

/** USD for each Mbps. @throws ApiError 400 */
function rateOf(text: string | undefined): number {
  if (text === undefined) return 0
  const rate = Number(text)
  if (!/^[0-9]{1,9}(\.[0-9]{1,9})?$/.test(text) || !Number.isFinite(rate)) {
    throw badRequest('rate: must be a number from 0 on, in USD for each Mbps')
  }
  return rate
}
