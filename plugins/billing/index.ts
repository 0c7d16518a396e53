/**
 * Billing state of tenants: suspended, with or without their traffic, and limited to a rate.
 * Kernel objects: rows of map `tenant_nets` of the programs on the workload ports, one for each net of a tenant that is
 * limited or blocked. A limit or a block is in force when its route answers, for networks that come later when they do.
 */
import { defineArea } from '../../core/area.ts'
import { netsOfRef } from '../networks/offers.ts'
import { desired, netRef, refsOfTenant } from './desired.ts'
import { events } from './events.ts'
import { metrics } from './metrics.ts'
import { queries } from './queries.ts'
import { routes } from './routes.ts'

export default defineArea(import.meta.url, {
  name: 'billing',
  summary: 'The billing state of each tenant, and what it lets through.',
  prefixes: ['/billing'],
  needs: ['flows', 'networks', 'tenants'],
  requires: ['port'],
  port: ['tenant_net'],
  events,
  desired,
  follows: { networks: (db, id) => netsOfRef(db, id).map((net) => netRef(net).id) },
  holdings: {
    uses: {},
    async remove(tx, tenantId) {
      queries(tx).remove.run({ tenantId })
      return { touch: refsOfTenant(tx, tenantId), events: [] }
    },
  },
  metrics,
  routes,
})
