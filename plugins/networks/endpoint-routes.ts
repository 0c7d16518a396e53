/** REST of the endpoints of a network. */
import type { TypedApp } from '../../core/area.ts'
import { badRequest } from '../../core/errors.ts'
import { sendList } from '../../core/transport/list.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import { parseMac } from '../../dataplane/nft/text.ts'
import { attach, changeMac, changePort, detach, endpointWithMac, readAttachment } from './endpoints.ts'
import { endpointPage } from './pages.ts'
import { findNetwork } from './rules.ts'
import * as schema from './schemas.ts'
import type { EndpointRow } from './tables.ts'
import { toEndpoint } from './views.ts'

const AREA = 'networks'
/** The router has found both in the path; `eid` only where the route has it. */
const paramsOf = ({ params }: { params: unknown }) => params as { id: string; eid: string }

export function endpointRoutes(app: TypedApp): void {
  const { now, store } = app.agent
  app.get(
    '/networks/:id/endpoints',
    {
      schema: {
        summary: 'All endpoints of a network, or that with a MAC',
        querystring: schema.EndpointQuery,
        response: { 200: schema.EndpointList },
      },
    },
    (request, reply) => {
      const network = findNetwork(store.read, paramsOf(request).id)
      const mac = readQuery(request.query.mac)
      return sendList<EndpointRow>(reply, store, {
        key: 'endpoints',
        page: (db, last) =>
          mac === undefined ? endpointPage(db, network, last) : [endpointWithMac(db, network, mac) ?? []].flat(),
        view: (row) => toEndpoint(network.id, row),
      })
    },
  )
  app.post(
    '/networks/:id/attach',
    {
      schema: {
        summary: 'Bind an endpoint, the next free one unless named',
        body: schema.AttachInput,
        response: { 200: schema.Attached },
      },
    },
    (request, reply) => {
      const wanted = { ...readAttachment(request.body), machine: '', port: request.body.port ?? '' }
      const at = now().toISOString()
      return carryOut(request, reply, AREA, (tx) => attach(tx, findNetwork(tx, paramsOf(request).id), wanted, at))
    },
  )
  app.put(
    '/networks/:id/endpoints/:eid/mac',
    {
      schema: {
        summary: 'Change the MAC of an endpoint',
        body: schema.MacInput,
        response: { 200: schema.EndpointUpdated },
      },
    },
    (request, reply) => {
      const { id, eid } = paramsOf(request)
      return carryOut(request, reply, AREA, (tx) => changeMac(tx, findNetwork(tx, id), eid, request.body))
    },
  )
  app.put(
    '/networks/:id/endpoints/:eid/port',
    {
      schema: {
        summary: 'Name the device of an endpoint, or none',
        body: schema.PortInput,
        response: { 200: schema.EndpointUpdated },
      },
    },
    (request, reply) => {
      const { id, eid } = paramsOf(request)
      return carryOut(request, reply, AREA, (tx) => changePort(tx, findNetwork(tx, id), eid, request.body.port))
    },
  )
  app.post(
    '/networks/:id/endpoints/:eid/detach',
    { schema: { summary: 'Free an endpoint', response: { 200: schema.Detached } } },
    (request, reply) => {
      const { id, eid } = paramsOf(request)
      return carryOut(request, reply, AREA, (tx) => detach(tx, findNetwork(tx, id), eid))
    },
  )
}

function readQuery(text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  const mac = parseMac(text)
  if (mac === undefined) throw badRequest('mac: not a MAC address')
  return mac
}
