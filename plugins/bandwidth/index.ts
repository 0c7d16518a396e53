/**
 * Bandwidth limits of MACs, pools that several share, and monthly quotas.
 * Kernel objects: pairs of devices `stshape<n>` with HTB classes, and rows of the maps of bpf/src/shape.h and quota.h. A
 * limit or a quota is in force when its route answers, and while no agent runs.
 */
import { defineArea } from '../../core/area.ts'
import { checks } from '../../core/config.ts'
import { startCounting } from './counting.ts'
import { desired, THROTTLE_BPS } from './desired.ts'
import { events } from './events.ts'
import { metrics } from './metrics.ts'
import { routes } from './routes.ts'
import { startUpkeep } from './upkeep.ts'

export default defineArea(import.meta.url, {
  name: 'bandwidth',
  summary: 'Rates of machines: limits of a MAC, pools that several MACs share, monthly quotas.',
  prefixes: ['/bandwidth'],
  requires: ['netlink', 'shaping'],
  netlink: { owner: 209 },
  events,
  config: {
    max_limits: {
      default: '16384',
      check: checks.int(1, 16_384),
      effective: 'now',
      summary: 'most bandwidth limits on this node',
    },
    max_bandwidth_pools: {
      default: '1024',
      check: checks.int(1, 16_384),
      effective: 'now',
      summary: 'most bandwidth pools on this node',
    },
    max_quotas: {
      default: '16384',
      check: checks.int(1, 16_384),
      effective: 'now',
      summary: 'most bandwidth quotas on this node',
    },
    [THROTTLE_BPS]: {
      default: '1000000',
      check: checks.int(8_000, 1_000_000_000_000),
      effective: 'now',
      summary: 'bits a second, each way, that a MAC has left while its quota throttles it',
    },
  },
  rendersFrom: [THROTTLE_BPS],
  desired,
  metrics,
  routes,
  async start(context) {
    const stops = [startCounting(context), startUpkeep(context)]
    return async () => {
      for (const stop of stops) await stop()
    }
  },
})
