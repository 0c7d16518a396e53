/** REST of the load balancer. */
import type { Db, TypedApp } from '../../core/area.ts'
import { ApiError } from '../../core/errors.ts'
import { Problem } from '../../core/schemas.ts'
import { sendOne } from '../../core/transport/etag.ts'
import { sendList } from '../../core/transport/list.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import { beyondNft } from '../../dataplane/bpf/lb/fallback.ts'
import { configuredVips } from '../gateway/offers.ts'
import { addBackend, removeBackend, setHealth } from './backends.ts'
import { noting } from './evict.ts'
import { queries } from './queries.ts'
import { createVip, deleteVip, findVip, type Surroundings } from './rules.ts'
import * as schema from './schemas.ts'
import { live, measure, type Served, servedBy, stored } from './view.ts'

const AREA = 'lb'
/** With up to 256 backends each, so many take some milliseconds. */
const VIPS_AT_ONCE = 4

/** Every path parameter is a string. */
const param = ({ params }: { params: unknown }, name: 'id' | 'bid'): string =>
  (params as Record<string, string | undefined>)[name] ?? ''
/** Which backends answer, and their connections, the data plane tells once it knows them. */
const MEASURED = { after: 'start' as const }
/** What a GET answers, as far as it is stored, and what If-Match is held against. */
const one = (id: string) => (db: Db) => stored(servedBy(db, findVip(db, id)))

export function routes(app: TypedApp): void {
  const { config, store, plane, now } = app.agent
  const parts = { plane, read: store.read }

  const surroundings = (): Surroundings => ({
    beyond(vip) {
      const { accelerated, detail } = plane.balancer
      const what = accelerated ? undefined : beyondNft(vip)
      return what && `${what.field}: ${what.detail}; here it is ${detail()}`
    },
    uplink: config.text('uplink'),
    gateway: configuredVips(config).map(({ address }) => address),
    useOf: (address) => plane.devices.useOf(address),
    workloadAt: (address) => plane.devices.workloadAt(address),
    max: config.int('max_vips'),
  })

  app.get(
    '/lb',
    {
      config: MEASURED,
      schema: { summary: 'All VIPs and their backends', response: { 200: schema.LoadBalancerList } },
    },
    async (_request, reply) => {
      const measured = await measure(parts)
      return sendList<Served>(reply, store, {
        key: 'load_balancers',
        size: VIPS_AT_ONCE,
        page: (db, last) =>
          queries(db)
            .vipPage.all({ after: last?.vip.number ?? 0, limit: VIPS_AT_ONCE })
            .map((row) => servedBy(db, row)),
        view: (served) => live(served, measured),
      })
    },
  )
  app.post(
    '/lb',
    {
      schema: {
        summary: 'Make a VIP: bring its address up and balance what comes to it',
        body: schema.VipInput,
        response: { 201: schema.LoadBalancerCreated },
      },
    },
    async (request, reply) => {
      const created = await carryOut(request, reply, AREA, (tx) => createVip(tx, request.body, surroundings()))
      return reply.code(201).send(created)
    },
  )
  app.get(
    '/lb/:id',
    {
      config: MEASURED,
      schema: { summary: 'One VIP, with health and connections', response: { 200: schema.OneLoadBalancer } },
    },
    async (request, reply) => {
      const served = servedBy(store.read, findVip(store.read, param(request, 'id')))
      const plain = stored(served)
      const sent = sendOne(request, reply, plain)
      // Whoever has it already has been answered; for all others comes what is measured.
      return sent === plain ? { load_balancer: live(served, await measure(parts, served.vip)) } : (sent as never)
    },
  )
  app.put(
    '/lb/:id',
    { schema: { summary: 'Not available: delete and recreate instead', response: { 501: Problem } } },
    () => {
      throw new ApiError(501, 'NOT_IMPLEMENTED', 'a VIP cannot be changed: delete it and recreate it as it shall be')
    },
  )
  app.delete(
    '/lb/:id',
    { schema: { summary: 'Remove a VIP and its backends', response: { 200: schema.LoadBalancerDeleted } } },
    (request, reply) => {
      const id = param(request, 'id')
      return carryOut(
        request,
        reply,
        AREA,
        noting(parts, (tx) => deleteVip(tx, id)),
        one(id),
      )
    },
  )
  app.post(
    '/lb/:id/backends',
    {
      schema: {
        summary: 'Add a backend to a VIP',
        body: schema.BackendInput,
        response: { 200: schema.BackendAdded },
      },
    },
    (request, reply) => {
      const around = { max: config.int('max_vip_backends'), useOf: (address: string) => plane.devices.useOf(address) }
      return carryOut(
        request,
        reply,
        AREA,
        noting(parts, (tx) => addBackend(tx, param(request, 'id'), request.body, around)),
      )
    },
  )
  app.delete(
    '/lb/:id/backends/:bid',
    {
      schema: { summary: 'Remove a backend; what it serves may end', response: { 200: schema.BackendRemoved } },
    },
    (request, reply) =>
      carryOut(
        request,
        reply,
        AREA,
        noting(parts, (tx) => removeBackend(tx, param(request, 'id'), param(request, 'bid'), now())),
      ),
  )
  app.post(
    '/lb/:id/backends/:bid/health',
    {
      schema: {
        summary: 'Say whether a backend is healthy, until the next result of its check',
        body: schema.HealthInput,
        response: { 200: schema.HealthSet },
      },
    },
    (request, reply) =>
      carryOut(
        request,
        reply,
        AREA,
        noting(parts, (tx) => setHealth(tx, param(request, 'id'), param(request, 'bid'), request.body.healthy)),
      ),
  )
}
