/**
 * The program on the devices that the node's IP stack begins at, as long as there are virtual addresses: every Ethernet
 * device that is no port of another. Pinned, so that it goes on without the agent: `<ifindex>`.
 */
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { KernelError } from '../../libc.ts'
import type { Link as Device } from '../../netlink/link.ts'
import { LB_INSIDE, LINK_PREFIX, WORK_BRIDGE } from '../../numbers.ts'
import { SHAPE_DEVICE } from '../../shaping/numbers.ts'
import { attachTcx, openLink } from '../link.ts'
import type { Program } from '../object.ts'
import type { BalancerMaps } from './maps.ts'

export class BalancerLinks {
  readonly #dir: string
  readonly #program: Program
  readonly #devices: BalancerMaps['devices']
  readonly #onProblem: (error: unknown) => void
  readonly #attached = new Set<number>()
  /** That there is no room for more roles is told once. */
  #isFull = false

  /** `onProblem`: told of what packets get by without. */
  constructor(dir: string, program: Program, devices: BalancerMaps['devices'], onProblem: (error: unknown) => void) {
    this.#dir = join(dir, 'links')
    this.#program = program
    this.#devices = devices
    this.#onProblem = onProblem
    mkdirSync(this.#dir, { recursive: true })
  }

  /**
   * Attaches to these, and takes off from all others. `thorough`: somebody may have taken off what was attached.
   * @throws KernelError
   */
  async bring(devices: readonly Device[], thorough: boolean): Promise<void> {
    if (thorough) this.#attached.clear()
    const wanted = new Map(devices.map((device) => [device.index, device]))
    for (const name of readdirSync(this.#dir)) {
      const index = Number(name)
      if (wanted.has(index)) continue
      await openLink(join(this.#dir, name)).detach().catch(ifGone)
      this.#devices.delete(index)
      this.#attached.delete(index)
    }
    for (const { index, name } of wanted.values()) {
      this.#setRole(index, isInside(name))
      if (this.#attached.has(index)) continue
      if (await this.#attach(index)) this.#attached.add(index)
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

  /** False when the device is gone. */
  async #attach(index: number): Promise<boolean> {
    const pin = join(this.#dir, String(index))
    if (await this.#stands(pin)) return true
    rmSync(pin, { force: true })
    try {
      const link = await attachTcx(this.#program, index, 'ingress')
      link.pin(pin)
      await link.close()
      return true
    } catch (error) {
      ifGone(error)
      return false
    }
  }

  /** Whether the pin is a link that is attached; it gets this build's program. */
  async #stands(pin: string): Promise<boolean> {
    try {
      const link = openLink(pin)
      try {
        if (link.deviceGone()) return false
        if (link.info().programId !== this.#program.id) await link.update(this.#program)
        return true
      } finally {
        await link.close()
      }
    } catch (error) {
      if (error instanceof KernelError && (error.code === 'ENOENT' || error.code === 'ENOLINK')) return false
      throw error
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

/** Throws any other error than that the device is gone. */
export function ifGone(error: unknown): void {
  if (error instanceof KernelError && (error.code === 'ENODEV' || error.code === 'ENOLINK')) return
  throw error
}
