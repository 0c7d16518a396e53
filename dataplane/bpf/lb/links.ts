/**
 * The program on the devices that the node's IP stack begins at, as long as there are virtual addresses: every Ethernet
 * device that is no port of another. It goes on without the agent; pins of it are `<ifindex>`.
 */
import { join } from 'node:path'
import { KernelError } from '../../libc.ts'
import type { Link as Device } from '../../netlink/link.ts'
import { LB_INSIDE, LINK_PREFIX, WORK_BRIDGE } from '../../numbers.ts'
import { SHAPE_DEVICE } from '../../shaping/numbers.ts'
import type { Attachments, Kind, Place } from '../attach/attachments.ts'
import type { Program } from '../object.ts'
import type { BalancerMaps } from './maps.ts'

/** `dir` is the layout's directory on the bpf filesystem. */
export const balancerKind = (dir: string): Kind => ({
  kind: 'balancer',
  dir: join(dir, 'links'),
  pin: ({ ifindex }) => String(ifindex),
  place: (pin) => (/^[1-9][0-9]*$/.test(pin) ? placeOn(Number(pin)) : undefined),
  set: 0,
  exact: true,
})

const placeOn = (ifindex: number): Place => ({ what: 'balancer', ifindex, direction: 'ingress' })

export class BalancerLinks {
  readonly #attachments: Attachments
  readonly #program: Program
  readonly #devices: BalancerMaps['devices']
  readonly #onProblem: (error: unknown) => void
  readonly #attached = new Set<number>()
  /** That there is no room for more roles is told once. */
  #isFull = false

  /** `onProblem`: told of what packets get by without. */
  constructor(
    attachments: Attachments,
    program: Program,
    devices: BalancerMaps['devices'],
    onProblem: (error: unknown) => void,
  ) {
    this.#attachments = attachments
    this.#program = program
    this.#devices = devices
    this.#onProblem = onProblem
  }

  /**
   * Attaches to these, and takes off from all others. `thorough`: somebody may have taken off what was attached.
   * @throws KernelError
   */
  async bring(devices: readonly Device[], thorough: boolean): Promise<void> {
    if (thorough) this.#attached.clear()
    const wanted = new Map(devices.map((device) => [device.index, device]))
    for (const place of await this.#attachments.list()) {
      const index = place.ifindex
      if (wanted.has(index)) continue
      await this.#attachments.detach(place)
      this.#devices.delete(index)
      this.#attached.delete(index)
    }
    for (const { index, name } of wanted.values()) {
      this.#setRole(index, isInside(name))
      if (this.#attached.has(index)) continue
      if (await this.#attachments.attach(placeOn(index), this.#program)) this.#attached.add(index)
    }
  }

  /** Of a device that is not in the map backends see the node instead of clients, which works as well. */
  #setRole(index: number, inside: boolean): void {
    if (!inside) return void this.#devices.delete(index)
    if (this.#devices.get(index) === LB_INSIDE) return
    try {
      this.#devices.set(index, LB_INSIDE)
      this.#isFull = false
    } catch (error) {
      if (!(error instanceof KernelError && error.code === 'E2BIG')) throw error
      if (!this.#isFull) this.#onProblem(error)
      this.#isFull = true
    }
  }
}

/** The devices whose packets the program is to see. Those that limited frames wait on are on the way of others. */
export const balanced = (devices: readonly Device[]): Device[] =>
  devices.filter(
    ({ mac, master, name }) =>
      mac !== undefined && master === undefined && name !== 'lo' && !name.startsWith(SHAPE_DEVICE),
  )

/** Machines behind these have this node for their gateway. */
const isInside = (name: string): boolean => name === WORK_BRIDGE || name.startsWith(LINK_PREFIX)
