/**
 * The portal (D106): what a tenant sees and does with its own key, beside its keys and quota. Machines are named by the
 * specification and run by nobody yet.
 */
import type { TypedApp } from '../../core/area.ts'
import { notAvailable } from '../../core/errors.ts'
import { sendOne } from '../../core/transport/etag.ts'
import { sendList } from '../../core/transport/list.ts'
import { type Network, type TenantAddress, tenantAddressPage, tenantNetworkPage } from '../networks/offers.ts'
import { showUsage } from './quotas.ts'
import { findTenant } from './rules.ts'
import * as schema from './schemas.ts'

const access = 'tenant'
/** Below a tenant's machines: what its own key may ask for. Creating and deleting them is the operator's. */
const MACHINES = [
  { method: 'GET', url: '/tenant/:id/machines', summary: 'The machines of a tenant', access },
  { method: 'POST', url: '/tenant/:id/machines', summary: 'Create a machine' },
  { method: 'GET', url: '/tenant/:id/machines/:mid', summary: 'State and figures of a machine', access },
  { method: 'DELETE', url: '/tenant/:id/machines/:mid', summary: 'Delete a machine' },
  { method: 'POST', url: '/tenant/:id/machines/:mid/power', summary: 'Start, stop or restart a machine', access },
  { method: 'POST', url: '/tenant/:id/machines/:mid/password', summary: 'Reset the password of a machine', access },
  { method: 'POST', url: '/tenant/:id/machines/:mid/console', summary: 'Open the console of a machine', access },
] as const

const tenantId = ({ params }: { params: unknown }): string => (params as { id: string }).id

export function portalRoutes(app: TypedApp): void {
  const { store } = app.agent
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
  for (const route of MACHINES) {
    app.route({
      ...{ method: route.method, url: route.url },
      config: { volatile: true, ...('access' in route && { access: route.access }) },
      schema: { summary: route.summary, response: { 200: schema.Nothing } },
      handler: async () => {
        throw notAvailable('compute')
      },
    })
  }
}
