/**
 * Zones and their records, served by the node itself over UDP and TCP, signed where that is asked for.
 * Data plane: entries of the responder. A record resolves when its creation answers, and no more when its deletion does.
 */
import { isIP } from 'node:net'
import { defineArea } from '../../core/area.ts'
import { checks, splitList } from '../../core/config.ts'
import { desired, follows } from './desired.ts'
import { events } from './events.ts'
import { metrics } from './metrics.ts'
import { routes } from './routes.ts'

const addresses = (text: string) => {
  const bad = splitList(text).find((part) => isIP(part) === 0)
  return bad === undefined ? undefined : `not an IP address: ${bad}`
}

export default defineArea(import.meta.url, {
  name: 'dns',
  summary: 'Zones that this node serves itself, and their records.',
  prefixes: ['/dns'],
  needs: ['networks'],
  follows,
  requires: ['responder'],
  events,
  config: {
    dns_listen: {
      default: '',
      check: addresses,
      effective: 'now',
      summary: 'addresses that DNS is served on, port 53; empty: the gateways that the node holds for its networks',
    },
    max_zones: { default: '1024', check: checks.int(1, 65_536), effective: 'now', summary: 'most zones on this node' },
    max_records: {
      default: '100000',
      check: checks.int(1, 1_000_000),
      effective: 'now',
      summary: 'most DNS records on this node',
    },
  },
  rendersFrom: ['dns_listen'],
  desired,
  metrics,
  routes,
})
