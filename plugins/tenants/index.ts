/**
 * Tenants, what each may have, and the keys by which they call for themselves.
 * Kernel objects: none of its own. What belongs to a tenant belongs to other areas, which ask before they take something for
 * it and take everything away when it is deleted, in one transaction (core/tenancy.ts).
 */
import { defineArea } from '../../core/area.ts'
import { checks } from '../../core/config.ts'
import { events } from './events.ts'
import { holdings, KIND, resolverOf } from './keys.ts'
import { openLastUsed, storeUses } from './last-used.ts'
import { metrics } from './metrics.ts'
import { admits } from './quotas.ts'
import { replicates } from './replicate.ts'
import { routes } from './routes.ts'

export default defineArea(import.meta.url, {
  name: 'tenants',
  summary: 'Tenants, their quotas, their API keys, and what each of them has.',
  prefixes: ['/tenant'],
  needs: ['networks', 'compute'],
  events,
  config: {
    max_tenants: {
      default: '4096',
      check: checks.int(1, 65_536),
      effective: 'now',
      summary: 'most tenants on this node',
    },
    max_tenant_keys: {
      default: '64',
      check: checks.int(1, 4096),
      effective: 'now',
      summary: 'most keys of one tenant, whatever its quota says',
    },
  },
  admits,
  holdings,
  replicates,
  metrics,
  routes,
  async start(context) {
    const uses = openLastUsed({ write: storeUses(context), log: context.log })
    context.keys.set(KIND, resolverOf(context.read, context.now, uses.note))
    return async () => {
      context.keys.delete(KIND)
      await uses.stop()
    }
  },
})
