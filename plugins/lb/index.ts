/**
 * Load balancer of layer 4: virtual addresses (VIPs) and the backends that serve them.
 * Kernel objects: a VIP each, carried out by the data plane; its address on the uplink, IFA_PROTO 208. Where the kernel has
 * no place for the programs nft balances: in table `inet stratum` the chains `lb_prerouting`, `lb_output` and the lists
 * `lb_balance`, `lb_postrouting`, `lb_input`, which are empty elsewhere. What is created is
 * in force when that answers. Health checks run here, and whether a backend is healthy changes in the store and the
 * kernel at once. A backend that was removed drains: it keeps its connections for a while and gets no new ones.
 */
import { type AreaContext, defineArea, type Stop } from '../../core/area.ts'
import { checks } from '../../core/config.ts'
import { FALLBACK_CHAINS, FALLBACK_LISTS, fallbackSkeleton } from '../../dataplane/bpf/lb/fallback.ts'
import { openChecker } from './checks/checker.ts'
import { desired } from './desired.ts'
import { startDraining } from './drain.ts'
import { events } from './events.ts'
import { startEviction } from './evict.ts'
import { metrics } from './metrics.ts'
import { startRemembering } from './place.ts'
import { routes } from './routes.ts'

async function start(context: AreaContext): Promise<Stop> {
  const forget = await startRemembering(context)
  const [checker, drainer] = [openChecker(context), startDraining(context)]
  const stopEviction = startEviction(context)
  return async () => {
    await Promise.all([forget(), checker.stop(), drainer.stop(), stopEviction()])
  }
}

export default defineArea(import.meta.url, {
  name: 'lb',
  summary: 'Layer 4 load balancing: virtual addresses (VIPs) and their backends.',
  prefixes: ['/lb'],
  // Whose addresses may serve as VIPs, and are theirs to move.
  needs: ['gateway', 'float'],
  requires: ['nft', 'netlink'],
  netlink: { owner: 208 },
  nft: { skeleton: fallbackSkeleton, lists: FALLBACK_LISTS, chains: FALLBACK_CHAINS },
  events,
  config: {
    max_vips: {
      default: '1024',
      check: checks.int(1, 1024),
      effective: 'now',
      summary: 'most VIPs of the load balancer on this node',
    },
    max_vip_backends: {
      default: '256',
      check: checks.int(1, 256),
      effective: 'now',
      summary: 'most backends of one VIP, without those that were removed and drain',
    },
  },
  rendersFrom: ['uplink', 'gateway_vip'],
  desired,
  metrics,
  routes,
  start,
})
