/**
 * What is attached to a device on `br-work`: two stubs, one each way. They carry packets without the agent; the next one
 * finds them by their names, those of pins being `<role>-<ifindex>-<direction>`.
 */
import { join } from 'node:path'
import type { Attachments, Found, Kind } from '../attach/attachments.ts'
import type { Direction } from '../link.ts'
import type { BpfObject } from '../object.ts'

/** What a device is for: `host` is the bridge itself, where the node's own IP stack begins. */
export type Role = 'workload' | 'uplink' | 'host'

const STUBS: Readonly<Record<Role, Readonly<Record<Direction, string>>>> = {
  workload: { ingress: 'hook_port_in', egress: 'hook_port_out' },
  uplink: { ingress: 'hook_uplink_in', egress: 'hook_uplink_out' },
  host: { ingress: 'hook_host_in', egress: 'hook_host_out' },
}
const DIRECTIONS: readonly Direction[] = ['ingress', 'egress']
const PIN = /^(workload|uplink|host)-([1-9][0-9]*)-(ingress|egress)$/

/** `dir` is the layout's directory on the bpf filesystem, `set` the number of the map that the stubs go on from. */
export const portKind = (dir: string, set: number): Kind => ({
  kind: 'port',
  dir: join(dir, 'links'),
  pin: ({ what, ifindex, direction }) => `${what}-${ifindex}-${direction}`,
  place(pin) {
    const [, what, ifindex, direction] = PIN.exec(pin) ?? []
    return what === undefined ? undefined : { what, ifindex: Number(ifindex), direction: direction as Direction }
  },
  // Where the load balancer is, too, which sends on what it takes: nothing that has not been proven.
  first: true,
  set,
})

export interface Present {
  /** Devices that have both stubs of a role and are still there. */
  whole: Map<number, Role>
  /** Every device that has anything of ours. */
  places: Found[]
}

export class PortLinks {
  readonly #attachments: Attachments
  readonly #object: Pick<BpfObject, 'program'>

  constructor(attachments: Attachments, object: Pick<BpfObject, 'program'>) {
    this.#attachments = attachments
    this.#object = object
  }

  /** What is attached now. @throws KernelError */
  async present(): Promise<Present> {
    const places = await this.#attachments.list()
    const sides = new Map<string, Set<Direction>>()
    for (const { what, ifindex, direction, stands } of places) {
      if (stands && isRole(what))
        sides.set(`${what}-${ifindex}`, (sides.get(`${what}-${ifindex}`) ?? new Set()).add(direction))
    }
    const whole = new Map<number, Role>()
    for (const { what, ifindex } of places) {
      if (isRole(what) && sides.get(`${what}-${ifindex}`)?.size === DIRECTIONS.length) whole.set(ifindex, what)
    }
    return { whole, places }
  }

  /** Attaches what is missing. Resolves to false when the device is gone. @throws KernelError */
  async attach(ifindex: number, role: Role): Promise<boolean> {
    for (const direction of DIRECTIONS) {
      const program = this.#object.program(STUBS[role][direction])
      if (!(await this.#attachments.attach({ what: role, ifindex, direction }, program))) return false
    }
    return true
  }

  /** Takes off what is attached to a device, for whichever role. @throws KernelError */
  async detach(ifindex: number, { places }: Present): Promise<void> {
    for (const place of places) if (place.ifindex === ifindex) await this.#attachments.detach(place)
  }
}

const isRole = (what: string): what is Role => Object.hasOwn(STUBS, what)
