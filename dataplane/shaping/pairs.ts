/**
 * The veth pairs on which limited frames wait. The devices are entries of netlink, like any other link; here their ends
 * get an HTB and the program that what was let go meets on the other end. The links are pinned:
 * `shape-<ifindex>-<near|far>`.
 */
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { attachTcx, openLink } from '../bpf/link.ts'
import type { BpfObject } from '../bpf/object.ts'
import { KernelError } from '../libc.ts'
import { getLink } from '../netlink/link.ts'
import type { Netlink } from '../netlink/socket.ts'
import { addHtb, listQdiscs } from '../netlink/tc.ts'
import { KernelRefusal } from '../plane.ts'
import type { Way } from './classes.ts'
import { SHAPE_DEVICE, SHAPE_MAJOR } from './numbers.ts'

/** ifindexes. What a MAC sends waits at the near end and comes out of the far one, what it gets the other way round. */
export interface Pair {
  near: number
  far: number
}

export const nearName = (shard: number): string => `${SHAPE_DEVICE}${shard}`
export const farName = (shard: number): string => `${SHAPE_DEVICE}${shard}p`

/** The end at whose egress classes of a way are. */
export const endOf = ({ near, far }: Pair, way: Way): number => (way === 'up' ? near : far)

const PROGRAM = { near: 'hook_shaped_down', far: 'hook_shaped_up' } as const
type End = keyof typeof PROGRAM
const PIN = /^shape-([1-9][0-9]*)-(near|far)$/

export class Pairs {
  readonly #netlink: Netlink
  readonly #object: Pick<BpfObject, 'program'>
  readonly #dir: string
  readonly #ready = new Map<number, Pair>()

  constructor(netlink: Netlink, { object, dir }: { object: Pick<BpfObject, 'program'>; dir: string }) {
    this.#netlink = netlink
    this.#object = object
    this.#dir = join(dir, 'queues')
    mkdirSync(this.#dir, { recursive: true })
  }

  /** Those that were made ready, or found so. */
  get(shard: number): Pair | undefined {
    return this.#ready.get(shard)
  }

  isOurs(ifindex: number): boolean {
    return [...this.#ready.values()].some(({ near, far }) => near === ifindex || far === ifindex)
  }

  /** Somebody may have changed something: what is asked for next is looked at anew. */
  forget(ifindex?: number): void {
    for (const [shard, { near, far }] of this.#ready) {
      if (ifindex === undefined || near === ifindex || far === ifindex) this.#ready.delete(shard)
    }
  }

  /** The pair of a shard, with queues and programs. @throws KernelRefusal without its devices, KernelError */
  async ensure(shard: number): Promise<Pair> {
    const known = this.#ready.get(shard)
    if (known !== undefined) return known
    const pair = await this.#find(shard)
    if (pair === undefined) {
      const both = `${nearName(shard)} and ${farName(shard)}`
      throw new KernelRefusal(`the interfaces ${both} are missing; they are put back within a minute, try again`)
    }
    for (const end of ['near', 'far'] as const) await this.#equip(pair[end], end)
    this.#ready.set(shard, pair)
    return pair
  }

  /** Looks at all shards: those that are whole are known from then on, pins of devices that are gone are removed. */
  async look(shards: Iterable<number>): Promise<void> {
    this.#ready.clear()
    const roots = new Set(
      (await listQdiscs(this.#netlink))
        .filter(({ kind, handle }) => kind === 'htb' && handle === SHAPE_MAJOR << 16)
        .map(({ ifindex }) => ifindex),
    )
    for (const shard of shards) {
      const pair = await this.#find(shard)
      if (pair === undefined) continue
      const ends = (['near', 'far'] as const).map(
        async (end) => roots.has(pair[end]) && (await this.#stands(pair[end], end)),
      )
      if ((await Promise.all(ends)).every(Boolean)) this.#ready.set(shard, pair)
    }
    for (const name of readdirSync(this.#dir)) {
      const [, ifindex, end] = PIN.exec(name) ?? []
      if (end !== undefined && !(await this.#stands(Number(ifindex), end as End)))
        rmSync(join(this.#dir, name), { force: true })
    }
  }

  async #find(shard: number): Promise<Pair | undefined> {
    const [near, far] = [await getLink(this.#netlink, nearName(shard)), await getLink(this.#netlink, farName(shard))]
    return near?.kind === 'veth' && far?.kind === 'veth' ? { near: near.index, far: far.index } : undefined
  }

  /** The program first: what is queued must have a way on. */
  async #equip(ifindex: number, end: End): Promise<void> {
    if (!(await this.#stands(ifindex, end))) {
      const pin = this.#pin(ifindex, end)
      rmSync(pin, { force: true })
      const link = await attachTcx(this.#object.program(PROGRAM[end]), ifindex, 'ingress')
      try {
        link.pin(pin)
      } finally {
        await link.close()
      }
    }
    const [error] = await this.#netlink.request([addHtb(ifindex)])
    if (error && error.code !== 'EEXIST') throw error
  }

  async #stands(ifindex: number, end: End): Promise<boolean> {
    try {
      const link = openLink(this.#pin(ifindex, end))
      try {
        return !link.deviceGone()
      } finally {
        await link.close()
      }
    } catch (error) {
      if (error instanceof KernelError && error.code === 'ENOENT') return false
      throw error
    }
  }

  #pin(ifindex: number, end: End): string {
    return join(this.#dir, `shape-${ifindex}-${end}`)
  }
}
