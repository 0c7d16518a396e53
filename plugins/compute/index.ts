/**
 * Machines that run on this node: for now their registry, by which endpoints and public addresses are known to be used,
 * and the tasks, the record of operations. Machines themselves, images, volumes and containers are not managed here.
 * Kernel objects: none of its own; what a machine has belongs to the networks, and is taken and given back in one
 * transaction with the registry. An agent that dies leaves no task running: its next start fails them.
 */
import { defineArea } from '../../core/area.ts'
import { checks } from '../../core/config.ts'
import { events } from './events.ts'
import { holdings } from './holdings.ts'
import { failInterruptedTasks } from './interrupted.ts'
import { control } from './routes.ts'
import { taskRoutes } from './task-routes.ts'

export default defineArea(import.meta.url, {
  name: 'compute',
  summary: 'Tasks: work that goes on after the answer to whoever asked for it.',
  prefixes: ['/tasks'],
  // What somebody else's agent does: its paths say so, whoever asks.
  parts: [
    { name: 'compute', prefixes: ['/vms'], requires: ['machines'] },
    ...['images', 'volumes', 'containers', 'operations'].map((name) => ({
      name,
      prefixes: [`/${name}`],
      requires: [name],
    })),
  ],
  needs: ['networks'],
  events,
  holdings,
  config: {
    max_tasks: {
      default: '1000',
      check: checks.int(1, 10_000),
      effective: 'now',
      summary: 'most tasks that are over and still kept',
    },
  },
  routes: taskRoutes,
  control,
  start: failInterruptedTasks,
})
