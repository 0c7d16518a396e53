/**
 * What machines offer to other areas, inside their transaction: which of them have something of a tenant, and the record
 * of operations that may outlast their request.
 */
import type { Db } from '../../core/area.ts'
import { nicsOfTenant } from '../networks/offers.ts'
import { queries } from './queries.ts'
import type { Machine } from './schemas.ts'

export type { Machine, Task } from './schemas.ts'
export { withTask } from './task-routes.ts'
export {
  beginTask,
  type Ending,
  failTask,
  finishTask,
  progress,
  recordTask,
  type TaskDraft,
} from './task-rules.ts'

/** Machines that have something of a tenant, by name, each with those of its NICs that are the tenant's. '' is the operator. */
export function machinesOfTenant(db: Db, tenant: string): Machine[] {
  const found = new Map<string, Machine>()
  for (const { machine: name, nic } of nicsOfTenant(db, tenant)) {
    const machine = found.get(name) ?? {
      name,
      created_at: queries(db).machine.get({ name })?.createdAt ?? '',
      networks: [],
    }
    machine.networks.push(nic)
    found.set(name, machine)
  }
  return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
}
