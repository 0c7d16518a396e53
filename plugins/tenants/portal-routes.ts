/**
 * The portal (D106): what a tenant sees and does with its own key, beside its keys and quota. Of machines this node knows
 * what they have and what passed; nobody here starts, stops or enters them.
 */
import type { TypedApp } from '../../core/area.ts'
import { ApiError, notFound } from '../../core/errors.ts'
import { sendOne } from '../../core/transport/etag.ts'
import { PAGE, sendList } from '../../core/transport/list.ts'
import { type SeenMachine, seenMachines } from '../compute/offers.ts'
import { type Network, type TenantAddress, tenantAddressPage, tenantNetworkPage } from '../networks/offers.ts'
import { showUsage } from './quotas.ts'
import { findTenant } from './rules.ts'
import * as schema from './schemas.ts'

const access = 'tenant'
/** What a hypervisor does. Of this the tenant's own key may ask for what says so. */
const MACHINES = [
  { method: 'POST', url: '/tenant/:id/machines', summary: 'Create a machine' },
  { method: 'DELETE', url: '/tenant/:id/machines/:mid', summary: 'Delete a machine' },
  { method: 'POST', url: '/tenant/:id/machines/:mid/power', summary: 'Start, stop or restart a machine', access },
  { method: 'POST', url: '/tenant/:id/machines/:mid/password', summary: 'Reset the password of a machine', access },
  { method: 'POST', url: '/tenant/:id/machines/:mid/console', summary: 'Open the console of a machine', access },
] as const

const NO_HYPERVISOR =
  'compute service not available: this node carries the traffic of machines and does not run them; ask their hypervisor'

const tenantId = ({ params }: { params: unknown }): string => (params as { id: string }).id

export function portalRoutes(app: TypedApp): void {
  const { plane, store } = app.agent
  app.get(
    '/tenant/:id/networks',
    { config: { access }, schema: { summary: 'The networks of a tenant', response: { 200: schema.NetworkList } } },
    (request, reply) => {
      const { id } = findTenant(store.read, tenantId(request))
      return sendList<Network>(reply, store, {
        key: 'networks',
        page: (db, last) => tenantNetworkPage(db, id, last),
        view: (network) => network,
      })
    },
  )
  app.get(
    '/tenant/:id/addresses',
    {
      config: { access },
      schema: { summary: 'Public addresses that a tenant has', response: { 200: schema.AddressList } },
    },
    (request, reply) => {
      const { id } = findTenant(store.read, tenantId(request))
      return sendList<TenantAddress>(reply, store, {
        key: 'addresses',
        page: (db, last) => tenantAddressPage(db, id, last),
        view: ({ address }) => address,
      })
    },
  )
  app.get(
    '/tenant/:id/usage',
    { config: { access }, schema: { summary: 'How much a tenant has', response: { 200: schema.OneUsage } } },
    (request, reply) => sendOne(request, reply, { usage: showUsage(store.read, tenantId(request)) }),
  )
  app.get(
    '/tenant/:id/machines',
    {
      config: { after: 'plane', access, volatile: true },
      schema: {
        summary: 'The machines of a tenant, whether they are connected, and what passed',
        response: { 200: schema.MachineList },
      },
    },
    (request, reply) => {
      const { id } = findTenant(store.read, tenantId(request))
      const machines = seenMachines(store.read, plane.ports, id)
      return sendList<SeenMachine>(reply, store, {
        key: 'machines',
        page: (_db, last) => pageBehind(machines, last),
        view: (machine) => machine,
      })
    },
  )
  app.get(
    '/tenant/:id/machines/:mid',
    {
      config: { after: 'plane', access, volatile: true },
      schema: { summary: 'State and figures of a machine', response: { 200: schema.OneMachine } },
    },
    (request) => {
      const { id } = findTenant(store.read, tenantId(request))
      const { mid } = request.params as { mid: string }
      const machine = seenMachines(store.read, plane.ports, id).find((one) => one.id === mid)
      if (machine === undefined) throw notFound('machine', mid.replace(/[^\x21-\x7e]/g, '?').slice(0, 64))
      return { machine }
    },
  )
  for (const route of MACHINES) {
    app.route({
      ...{ method: route.method, url: route.url },
      config: { volatile: true, ...('access' in route && { access: route.access }) },
      schema: { summary: route.summary, response: { 200: schema.Nothing } },
      handler: async () => {
        throw new ApiError(503, 'NOT_AVAILABLE', NO_HYPERVISOR)
      },
    })
  }
}

function pageBehind(machines: readonly SeenMachine[], last: SeenMachine | undefined): SeenMachine[] {
  const begin = last === undefined ? 0 : machines.findIndex(({ id }) => id === last.id) + 1
  return machines.slice(begin, begin + PAGE)
}
