/**
 * What machines offer to other areas, inside their transaction: which of them have something of a tenant, and the record
 * of operations that may outlast their request.
 */
import type { Db } from '../../core/area.ts'
import type { Plane } from '../../dataplane/plane.ts'
import { nicsOfTenant, type PlacedNic } from '../networks/offers.ts'
import { queries } from './queries.ts'
import type { Machine, SeenMachine, SeenNic } from './schemas.ts'

export { type Machine, SeenMachine, type Task } from './schemas.ts'
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

/**
 * The machines of a tenant as this node knows them: what each has, whether frames of it were seen at a port that is there,
 * and what passed. Power and contents are known to the machine's hypervisor alone.
 */
export function seenMachines(db: Db, ports: Plane['ports'], tenant: string): SeenMachine[] {
  const found = new Map<string, SeenMachine>()
  for (const placed of nicsOfTenant(db, tenant)) {
    const known = found.get(placed.machine) ?? {
      id: placed.machine,
      created_at: queries(db).machine.get({ name: placed.machine })?.createdAt ?? '',
      state: 'disconnected',
      networks: [],
    }
    const nic = seenNic(ports, placed)
    if (nic.state === 'connected') known.state = 'connected'
    known.networks.push(nic)
    found.set(placed.machine, known)
  }
  return [...found.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
}

function seenNic(ports: Plane['ports'], { nic: { port: _, ...nic }, net, binding }: PlacedNic): SeenNic {
  const passed = ports.account(binding)
  return {
    ...nic,
    state: ports.seenAt(net, nic.mac) === undefined ? 'disconnected' : 'connected',
    bytes_in: Number(passed?.downBytes ?? 0),
    bytes_out: Number(passed?.upBytes ?? 0),
    packets_in: Number(passed?.downPackets ?? 0),
    packets_out: Number(passed?.upPackets ?? 0),
  }
}

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
