/** REST of floating IPs. */
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { Db, TypedApp } from '../../core/area.ts'
import { selfInCluster } from '../../core/replication.ts'
import { sendOne } from '../../core/transport/etag.ts'
import { sendList } from '../../core/transport/list.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import { configuredVips } from '../gateway/offers.ts'
import { queries } from './queries.ts'
import { createFloatingIp, deleteFloatingIp, findFloatingIp, readIp, type Surroundings, toFloatingIp } from './rules.ts'
import * as schema from './schemas.ts'
import type { AddressRow } from './tables.ts'

const AREA = 'float'
/** Every path parameter is a string. */
const idOf = ({ params }: { params: unknown }): string => (params as { id: string }).id
/** In a cluster all members call it the same. */
const here = (db: Db): string => selfInCluster(db) ?? hostname()
/** What this node is called in a cluster is known once the cluster runs. */
const HERE = { after: 'start' as const }

/** What a GET answers, and what If-Match is held against. */
const one = (id: string) => (db: Db) => toFloatingIp(findFloatingIp(db, id), here(db))

export function routes(app: TypedApp): void {
  const { config, store, plane, now } = app.agent

  app.get(
    '/float',
    { config: HERE, schema: { summary: 'All floating IPs', response: { 200: schema.FloatingIpList } } },
    (_request, reply) =>
      sendList<AddressRow>(reply, store, {
        key: 'floating_ips',
        page: (db, last) => queries(db).page.all({ after: last?.number ?? 0 }),
        view: (row) => toFloatingIp(row, here(store.read)),
      }),
  )
  app.post(
    '/float',
    {
      schema: {
        summary: 'Add a floating IP; this node has it unless another is named',
        body: schema.FloatingIpInput,
        response: { 201: schema.FloatingIpCreated },
      },
    },
    async (request, reply) => {
      const use = await plane.devices.useOf(readIp(request.body))
      const surroundings = (tx: Db): Surroundings => ({
        id: `fip-${randomBytes(6).toString('hex')}`,
        names: [here(tx), hostname()],
        uplink: config.text('uplink'),
        vips: configuredVips(config).map(({ address }) => address),
        use,
        max: config.int('max_floating_ips'),
        now: now().toISOString(),
      })
      const created = await carryOut(request, reply, AREA, (tx) => createFloatingIp(tx, request.body, surroundings(tx)))
      return reply.code(201).send(created)
    },
  )
  app.get(
    '/float/:id',
    { config: HERE, schema: { summary: 'One floating IP', response: { 200: schema.FloatingIp } } },
    (request, reply) => sendOne(request, reply, one(idOf(request))(store.read)),
  )
  app.delete(
    '/float/:id',
    { schema: { summary: 'Delete a floating IP', response: { 200: schema.FloatingIpDeleted } } },
    (request, reply) => {
      const id = idOf(request)
      return carryOut(request, reply, AREA, (tx) => deleteFloatingIp(tx, id), one(id))
    },
  )
}
