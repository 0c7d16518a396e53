/**
 * The veth pairs on which limited frames wait. The devices are entries of netlink, like any other link; here their ends
 * get an HTB and the program that what was let go meets on the other end. Pins of it are `shape-<ifindex>-<near|far>`.
 */
import { join } from 'node:path'
import type { Attachments, Kind, Place } from '../bpf/attach/attachments.ts'
import type { BpfObject } from '../bpf/object.ts'
import { PinFolders } from '../bpf/pinned.ts'
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
const ENDS: readonly End[] = ['near', 'far']

/** `dir` is the layout's directory on the bpf filesystem, `set` the number of the map that the stubs go on from. */
export const queueKind = ({ dir, set }: { dir: string; set: number }): Kind => ({
  kind: 'queue',
  dir: join(dir, 'queues'),
  pin: ({ what, ifindex }) => `shape-${ifindex}-${what}`,
  place(pin) {
    const [, ifindex, what] = PIN.exec(pin) ?? []
    return what === undefined ? undefined : { what, ifindex: Number(ifindex), direction: 'ingress' }
  },
  set,
})

export class Pairs {
  readonly #netlink: Netlink
  readonly #object: Pick<BpfObject, 'program'>
  readonly #attachments: Attachments
  readonly #folders: PinFolders
  readonly #ready = new Map<number, Pair>()

  /** `dir`: where the pins of {@link queueKind} are. */
  constructor(netlink: Netlink, object: Pick<BpfObject, 'program'>, attachments: Attachments, dir: string) {
    this.#netlink = netlink
    this.#object = object
    this.#attachments = attachments
    this.#folders = new PinFolders([dir])
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
    for (const end of ENDS) await this.#equip(pair[end], end)
    this.#ready.set(shard, pair)
    return pair
  }

  /** Makes those ready again whose pins somebody has deleted; one whose devices are gone is not known any more. */
  hold(): Promise<void> {
    return this.#folders.hold(async () => {
      const shards = [...this.#ready.keys()]
      this.#ready.clear()
      for (const shard of shards) {
        await this.ensure(shard).catch((error: unknown) => {
          if (!(error instanceof KernelRefusal)) throw error
        })
      }
    })
  }

  /** Looks at all shards: those that are whole are known from then on, pins of devices that are gone are removed. */
  async look(shards: Iterable<number>): Promise<void> {
    this.#ready.clear()
    const ends = new Set<number>()
    const roots = new Set(
      (await listQdiscs(this.#netlink))
        .filter(({ kind, handle }) => kind === 'htb' && handle === SHAPE_MAJOR << 16)
        .map(({ ifindex }) => ifindex),
    )
    for (const shard of shards) {
      const pair = await this.#find(shard)
      if (pair === undefined) continue
      for (const end of ENDS) ends.add(pair[end])
      const whole = ENDS.map(
        async (end) => roots.has(pair[end]) && (await this.#attachments.stands(placeOf(pair[end], end))),
      )
      if ((await Promise.all(whole)).every(Boolean)) this.#ready.set(shard, pair)
    }
    // What goes on from other maps is replaced when its pair is made ready.
    for (const place of await this.#attachments.list()) {
      if (!place.stands && !ends.has(place.ifindex)) await this.#attachments.detach(place)
    }
  }

  async #find(shard: number): Promise<Pair | undefined> {
    const [near, far] = [await getLink(this.#netlink, nearName(shard)), await getLink(this.#netlink, farName(shard))]
    return near?.kind === 'veth' && far?.kind === 'veth' ? { near: near.index, far: far.index } : undefined
  }

  /** The program first: what is queued must have a way on. */
  async #equip(ifindex: number, end: End): Promise<void> {
    const stands = await this.#attachments.attach(placeOf(ifindex, end), this.#object.program(PROGRAM[end]))
    if (!stands) throw new KernelRefusal(`interface ${ifindex} is gone; it is put back within a minute, try again`)
    const [error] = await this.#netlink.request([addHtb(ifindex)])
    if (error && error.code !== 'EEXIST') throw error
  }
}

const placeOf = (ifindex: number, end: End): Place => ({ what: end, ifindex, direction: 'ingress' })
