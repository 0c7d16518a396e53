/** REST of port forwards and source NAT. */
import type { Db, TypedApp } from '../../core/area.ts'
import { sendOne } from '../../core/transport/etag.ts'
import { sendList } from '../../core/transport/list.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import { awaitedDevices, waitingFor } from '../../core/waiting.ts'
import { queries, SNAT } from './queries.ts'
import { createForward, createSnat, deleteForward, deleteSnat, findForward, toForward, toNatRule } from './rules.ts'
import * as schema from './schemas.ts'
import type { Row } from './tables.ts'

const AREA = 'nat'
/** Every path parameter is a string. */
const ruleId = ({ params }: { params: unknown }): string => (params as { id: string }).id
/** What a GET answers, and what If-Match is held against. */
const oneForward = (id: string) => (db: Db) => ({ port_forward: toForward(findForward(db, id)) })

export function routes(app: TypedApp): void {
  const { config, plane, store } = app.agent
  const max = () => config.int('max_nat_rules')

  app.get(
    '/forward',
    { schema: { summary: 'All port forwards', response: { 200: schema.ForwardList } } },
    (_request, reply) =>
      sendList<Row>(reply, store, {
        key: 'port_forwards',
        page: (db, last) => queries(db).forwardPage.all({ after: last?.id ?? 0 }),
        view: toForward,
      }),
  )
  app.post(
    '/forward',
    {
      schema: {
        summary: 'Forward a public address and port, TCP and UDP',
        body: schema.ForwardInput,
        response: { 201: schema.ForwardCreated },
      },
    },
    async (request, reply) => {
      const created = await carryOut(request, reply, AREA, (tx) => createForward(tx, request.body, max()))
      const device = created.port_forward.dest_ip.includes(':') ? undefined : config.text('uplink')
      return reply.code(201).send({ ...created, ...waitingFor(awaitedDevices(plane, AREA), device) })
    },
  )
  app.get(
    '/forward/:id',
    { schema: { summary: 'One port forward', response: { 200: schema.OneForward } } },
    (request, reply) => sendOne(request, reply, oneForward(ruleId(request))(store.read)),
  )
  app.delete(
    '/forward/:id',
    { schema: { summary: 'Delete a port forward and end its connections', response: { 200: schema.RuleDeleted } } },
    (request, reply) => {
      const id = ruleId(request)
      return carryOut(request, reply, AREA, (tx) => deleteForward(tx, id), oneForward(id))
    },
  )
  app.get(
    '/gateway/snat',
    {
      // What waits for a device is known once all has been tried.
      config: { after: 'start' },
      schema: { summary: 'All source NAT rules and port forwards', response: { 200: schema.NatRuleList } },
    },
    (_request, reply) => {
      const awaited = awaitedDevices(plane, AREA)
      return sendList<Row>(reply, store, {
        key: 'nat_rules',
        page: (db, last) => queries(db).page.all({ after: last?.id ?? 0 }),
        view: (row) => ({ ...toNatRule(row), ...(row.type === SNAT && waitingFor(awaited, row.interface)) }),
      })
    },
  )
  app.post(
    '/gateway/snat',
    {
      schema: {
        summary: 'Let a block of addresses out by a device under the address of the node',
        body: schema.SnatInput,
        response: { 201: schema.SnatCreated },
      },
    },
    async (request, reply) => {
      const uplink = config.text('uplink')
      const created = await carryOut(request, reply, AREA, (tx) => createSnat(tx, request.body, uplink, max()))
      const rule = { ...created.rule, ...waitingFor(awaitedDevices(plane, AREA), created.rule.interface) }
      return reply.code(201).send({ ...created, rule })
    },
  )
  app.delete(
    '/gateway/snat/:id',
    { schema: { summary: 'Delete a source NAT rule', response: { 200: schema.RuleDeleted } } },
    (request, reply) => carryOut(request, reply, AREA, (tx) => deleteSnat(tx, ruleId(request))),
  )
}
