/**
 * Flows over the workload bridge, and accounting of what each MAC has sent and got.
 * Kernel objects: none of its own. The programs on the ports of br-work count, in pinned maps, whether an agent runs or not;
 * this area reads. Everything below its paths is measured. Networks tell which bindings are a tenant's.
 */
import { defineArea } from '../../core/area.ts'
import { checks } from '../../core/config.ts'
import { startKeeping } from './keeper.ts'
import { metrics } from './metrics.ts'
import { routes } from './routes.ts'

export default defineArea(import.meta.url, {
  name: 'flows',
  summary: 'Flows over the workload bridge, and accounting of what each MAC has sent and received.',
  prefixes: ['/flows', '/accounting'],
  needs: ['networks'],
  requires: ['port'],
  config: {
    flow_tracking: {
      default: 'on',
      check: checks.flag,
      effective: 'now',
      summary: 'off: flows are not kept any more, which saves some time on each packet; accounting goes on',
    },
  },
  metrics,
  routes,
  start: startKeeping,
})
