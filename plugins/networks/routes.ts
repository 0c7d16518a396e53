/** REST of private networks; that of their endpoints and of routed addresses stands beside it. */
import { randomBytes } from 'node:crypto'
import type { Db, TypedApp } from '../../core/area.ts'
import { sendOne } from '../../core/transport/etag.ts'
import { sendList } from '../../core/transport/list.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import { awaitedDevices, waitingFor } from '../../core/waiting.ts'
import { warningsOn } from '../../core/warnings.ts'
import { endpointRoutes } from './endpoint-routes.ts'
import { queries } from './queries.ts'
import { routedRoutes } from './routed-routes.ts'
import { createNetwork, deleteNetwork, findNetwork, type Services, setHostGateway } from './rules.ts'
import * as schema from './schemas.ts'
import type { NetworkRow } from './tables.ts'
import { toNetwork } from './views.ts'

const AREA = 'networks'
/** The router has found the parameter in the path. */
const networkId = ({ params }: { params: unknown }): string => (params as { id: string }).id
/** What a GET answers, and what If-Match is held against. */
const oneNetwork = (id: string) => (db: Db) => ({ network: toNetwork(findNetwork(db, id)) })

export function routes(app: TypedApp): void {
  const { config, now, plane, states, store } = app.agent
  /** What comes back to the machines by an uplink that is not there is not forwarded yet. */
  const told = <T extends { network: schema.Network }>(answer: T) => {
    const device = answer.network.host_gateway.enabled ? config.text('uplink') : undefined
    return { ...answer, ...waitingFor(awaitedDevices(plane, AREA), device) }
  }
  /** DHCP can be asked for once an area of that name is there and on. */
  const services = (): Services => ({
    uplink: config.text('uplink') !== '',
    dhcp: states.all().some(({ name, reason }) => name === 'dhcp' && reason === undefined),
  })

  app.get(
    '/networks',
    { schema: { summary: 'All private networks', response: { 200: schema.NetworkList } } },
    (_request, reply) =>
      sendList<NetworkRow>(reply, store, {
        key: 'networks',
        page: (db, last) => queries(db).networkPage.all({ after: last?.name ?? '' }),
        view: toNetwork,
      }),
  )
  app.post(
    '/networks',
    { schema: { summary: 'Add a network', body: schema.NetworkInput, response: { 201: schema.NetworkCreated } } },
    async (request, reply) => {
      const creation = { id: newId('net'), now: now().toISOString(), max: config.int('max_networks'), ...services() }
      const created = await carryOut(request, reply, AREA, (tx) => createNetwork(tx, request.body, creation))
      return reply.code(201).send({ ...told(created), ...warningsOn(states, store.read, AREA, created.network.id) })
    },
  )
  app.get(
    '/networks/:id',
    { schema: { summary: 'One network', response: { 200: schema.OneNetwork } } },
    (request, reply) => sendOne(request, reply, oneNetwork(networkId(request))(store.read)),
  )
  app.delete(
    '/networks/:id',
    { schema: { summary: 'Delete a network without bound endpoints', response: { 200: schema.NetworkDeleted } } },
    (request, reply) => {
      const id = networkId(request)
      return carryOut(request, reply, AREA, (tx) => deleteNetwork(tx, id), oneNetwork(id))
    },
  )
  app.put(
    '/networks/:id/host-gateway',
    {
      schema: {
        summary: 'Hold the gateway address on this node',
        body: schema.GatewayInput,
        response: { 200: schema.NetworkUpdated },
      },
    },
    async (request, reply) => {
      const id = networkId(request)
      const change = (tx: Db) => setHostGateway(tx, id, request.body, services())
      return told(await carryOut(request, reply, AREA, change, oneNetwork(id)))
    },
  )
  app.delete(
    '/networks/:id/host-gateway',
    { schema: { summary: 'Give up the host gateway and what came with it', response: { 200: schema.NetworkUpdated } } },
    (request, reply) => {
      const id = networkId(request)
      const change = (tx: Db) => setHostGateway(tx, id, undefined, services())
      return carryOut(request, reply, AREA, change, oneNetwork(id))
    },
  )
  endpointRoutes(app)
  routedRoutes(app, () => newId('rng'))
}

const newId = (kind: string): string => `${kind}-${randomBytes(6).toString('hex')}`
