/**
 * AREA: one sentence that says what the area is for.
 * Kernel objects: none. Invariants: what must stay true. Failure: what the operator sees.
 */
import { defineArea } from '../../core/area.ts'
import { events } from './events.ts'
import { metrics } from './metrics.ts'
import { routes } from './routes.ts'

export default defineArea(import.meta.url, {
  name: 'AREA',
  summary: 'What the area is for, in a sentence.',
  prefixes: ['/AREA'],
  events,
  metrics,
  routes,
})
