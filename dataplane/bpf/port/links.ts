/**
 * The pinned links of a device on `br-work`: two stubs, one each way. They carry packets without the agent; the next one
 * finds them by their names: `<role>-<ifindex>-<direction>`.
 */
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { KernelError } from '../../libc.ts'
import { attachTcx, type Direction, openLink } from '../link.ts'
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

export class PortLinks {
  readonly #dir: string
  readonly #object: Pick<BpfObject, 'program'>

  /** `dir` is the layout's directory on the bpf filesystem. */
  constructor(dir: string, object: Pick<BpfObject, 'program'>) {
    this.#dir = join(dir, 'links')
    this.#object = object
    mkdirSync(this.#dir, { recursive: true })
  }

  /** Devices that have both links and are still there, with what they are for. */
  present(): Map<number, Role> {
    const found = new Map<string, Set<string>>()
    for (const name of readdirSync(this.#dir)) {
      const [, role, ifindex, direction = ''] = PIN.exec(name) ?? []
      if (role === undefined || !this.#stands(name)) continue
      const key = `${role}-${ifindex}`
      found.set(key, (found.get(key) ?? new Set()).add(direction))
    }
    const whole = [...found].filter(([, directions]) => directions.size === DIRECTIONS.length)
    return new Map(whole.map(([key]) => [Number(key.split('-')[1]), key.split('-')[0] as Role]))
  }

  /**
   * Attaches what is missing. Resolves to false when the device is gone. @throws KernelError
   */
  async attach(ifindex: number, role: Role): Promise<boolean> {
    for (const direction of DIRECTIONS) {
      const name = `${role}-${ifindex}-${direction}`
      if (this.#stands(name)) continue
      rmSync(join(this.#dir, name), { force: true })
      try {
        // Where the load balancer is, too, which sends on what it takes: nothing that has not been proven.
        const link = await attachTcx(this.#object.program(STUBS[role][direction]), ifindex, direction, 'first')
        link.pin(join(this.#dir, name))
        await link.close()
      } catch (error) {
        if (error instanceof KernelError && error.code === 'ENODEV') return false
        throw error
      }
    }
    return true
  }

  /** Takes the links of a device off, whichever role they are for; `except` stays. */
  async detach(ifindex: number, except?: Role): Promise<void> {
    for (const name of readdirSync(this.#dir)) {
      const [, role, index] = PIN.exec(name) ?? []
      if (Number(index) !== ifindex || role === except) continue
      await openLink(join(this.#dir, name)).detach()
    }
  }

  /** Every device that has a pin here, alive or not. */
  known(): Set<number> {
    return new Set(
      readdirSync(this.#dir)
        .flatMap((name) => PIN.exec(name)?.[2] ?? [])
        .map(Number),
    )
  }

  /** Whether the pin is a link that is attached. */
  #stands(name: string): boolean {
    try {
      const link = openLink(join(this.#dir, name))
      const gone = link.deviceGone()
      void link.close()
      return !gone
    } catch {
      return false
    }
  }
}
