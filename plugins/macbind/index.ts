/**
 * MAC bindings: which MACs may use a workload port. A port that a binding names, or any port once a binding names all of
 * them, admits bound MACs only.
 * Kernel objects: rows of map `macbind` of the port program. A binding is in force when its creation answers.
 */
import { defineArea } from '../../core/area.ts'
import { checks } from '../../core/config.ts'
import { tellViolations } from '../../core/violations.ts'
import { desired } from './desired.ts'
import { events } from './events.ts'
import { routes } from './routes.ts'

export default defineArea(import.meta.url, {
  name: 'macbind',
  summary: 'Which MAC addresses may use a port of the workload bridge.',
  prefixes: ['/macbind'],
  requires: ['port'],
  port: ['macbind'],
  events,
  config: {
    max_mac_bindings: {
      default: '16384',
      check: checks.int(1, 16_384),
      effective: 'now',
      summary: 'most MAC bindings on this node',
    },
  },
  desired,
  routes,
  start: async (context) =>
    tellViolations(context, ({ mac, port, vlan, reason, suppressed }) => {
      if (reason !== 'macbind' && reason !== 'macbind_soft') return undefined
      const data = { mac, port_id: port, vlan_id: vlan, dropped: reason === 'macbind', suppressed }
      return { type: 'macbind.violation', resource: '/api/v1/macbind', data }
    }),
})
