/**
 * VLAN lockdown: tagged frames of a locked VLAN enter and leave by no port of the workload bridge.
 * Kernel objects: the locked bit of a VLAN in map `vlan` of the port program. A lockdown is in force when it answers.
 */
import { defineArea } from '../../core/area.ts'
import { desired } from './desired.ts'
import { events } from './events.ts'
import { routes } from './routes.ts'

export default defineArea(import.meta.url, {
  name: 'vlan',
  summary: 'VLAN lockdown: tags that no port of the workload bridge lets through.',
  prefixes: ['/vlan'],
  requires: ['port'],
  port: ['vlan'],
  events,
  desired,
  routes,
})
