/**
 * Our filters at `clsact` of all devices. They stay in the kernel without the agent, and say themselves whose they are:
 * by their handle, and by their name `stratum/<set>/<what>[/clsact]`. `set` is the number of the map that the program goes
 * on from; `/clsact` says that the qdisc was made for it, and is to go with the last filter that anybody has there.
 */
import { KernelError } from '../../libc.ts'
import { NETLINK_ROUTE } from '../../netlink/bind.ts'
import { RTM_DELLINK } from '../../netlink/link.ts'
import { type Monitor, openMonitor, RTNLGRP_LINK, RTNLGRP_TC } from '../../netlink/monitor.ts'
import type { Netlink } from '../../netlink/socket.ts'
import { listQdiscs } from '../../netlink/tc.ts'
import {
  addClsact,
  concernsFilters,
  deleteClsact,
  deleteFilter,
  type FilterState,
  listFilters,
  putFilter,
  type Side,
} from '../../netlink/tc-filter.ts'
import type { Program } from '../object.ts'
import { FILTER_HANDLE, FILTER_NAME } from './numbers.ts'

/**
 * What a filter is for, each with a handle of its own. The guard of a port is met before the load balancer, and both
 * before what is attached without a priority.
 */
const KINDS = {
  port: { priority: 1, handle: FILTER_HANDLE },
  queue: { priority: 1, handle: FILTER_HANDLE + 1 },
  balancer: { priority: 2, handle: FILTER_HANDLE + 2 },
} as const
export type FilterKind = keyof typeof KINDS

const SIDES: readonly Side[] = ['ingress', 'egress']
const NAME = new RegExp(`^${FILTER_NAME}/([0-9]+)/([a-z]+)(/clsact)?$`)
/** Handle of clsact and of ingress; a device has one of them at most. */
const CLSACT_HANDLE = 0xffff0000

export interface OurFilter {
  kind: FilterKind
  ifindex: number
  side: Side
  set: number
  what: string
  programId: number
  /** The qdisc was made for filters of ours. */
  madeQdisc: boolean
}

/** Where, what for, and under which name a filter is to stand. */
export type FilterWish = Pick<OurFilter, 'kind' | 'ifindex' | 'side' | 'set' | 'what'>

export class Filters {
  readonly #netlink: Netlink
  readonly #monitor: Monitor
  readonly #listeners = new Set<(ifindex: number | undefined) => void>()
  /** Ours on every device that has any, as far as nobody has changed anything since. */
  readonly #known = new Map<number, OurFilter[]>()
  /** Devices of which others have changed something; undefined: everything has to be looked at. */
  #stale: Set<number> | undefined
  #lane: Promise<unknown> = Promise.resolve()

  /** Owns `netlink`. Hears what others do to filters from now on, or says `onProblem`. @throws KernelError */
  constructor(netlink: Netlink, onProblem: (error: unknown) => void) {
    this.#netlink = netlink
    this.#monitor = openMonitor({
      protocol: NETLINK_ROUTE,
      groups: [RTNLGRP_LINK, RTNLGRP_TC],
      onMessage: (message) => {
        // struct ifinfomsg and struct tcmsg have the index at offset 4.
        const ifindex = message.payload.readInt32LE(4)
        if (message.type === RTM_DELLINK) this.#stale?.add(ifindex)
        else if (concernsFilters(message) && message.port !== netlink.port()) this.#doubt(ifindex)
      },
      onOverflow: () => this.#doubt(undefined),
      onError: onProblem,
    })
  }

  /** Number of the socket that changes filters, by which notifications are known as ours. */
  port(): number {
    return this.#netlink.port()
  }

  /** Calls `listener` with the device of which others may have changed filters, undefined for any; returns how to stop that. */
  onChange(listener: (ifindex: number | undefined) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** All of ours. @throws KernelError */
  list(): Promise<OurFilter[]> {
    return this.#inLane(async () => {
      await this.#refresh()
      return [...this.#known.values()].flat()
    })
  }

  /**
   * Puts `program` at a place, also instead of another filter of ours there: every packet meets the one or the other.
   * False when the device is gone. @throws KernelError that names what is in the way
   */
  put(wish: FilterWish, program: Program): Promise<boolean> {
    return this.#inLane(async () => {
      const { ifindex, side, set, what } = wish
      await this.#refresh()
      const present = this.#known.get(ifindex) ?? []
      const madeQdisc = present.length > 0 ? present.some((it) => it.madeQdisc) : await this.#makeQdisc(ifindex)
      if (madeQdisc === undefined) return false
      const name = `${FILTER_NAME}/${set}/${what}${madeQdisc ? '/clsact' : ''}`
      const [error] = await this.#netlink.request([putFilter({ ...KINDS[wish.kind], ifindex, side }, name, program.fd)])
      this.#stale?.add(ifindex)
      if (error === undefined) return true
      if (madeQdisc) await this.#removeQdisc(ifindex)
      if (error.code === 'ENODEV') return false
      throw refused(error, `attach ${program.name} by a filter at clsact ${side} of interface ${ifindex}`)
    })
  }

  /** Takes ours off a place, and the qdisc if that was made for it and nobody has anything there. @throws KernelError */
  remove({ kind, ifindex, side }: Pick<FilterWish, 'kind' | 'ifindex' | 'side'>): Promise<void> {
    return this.#inLane(async () => {
      await this.#refresh()
      const present = this.#known.get(ifindex)?.find((it) => it.kind === kind && it.side === side)
      if (present === undefined) return
      const [error] = await this.#netlink.request([deleteFilter({ ...KINDS[kind], ifindex, side })])
      this.#stale?.add(ifindex)
      // EINVAL: the qdisc went, and the filter with it.
      if (error && !['ENOENT', 'EINVAL', 'ENODEV'].includes(error.code)) throw error
      if (present.madeQdisc) await this.#removeQdisc(ifindex)
    })
  }

  async close(): Promise<void> {
    this.#monitor.close()
    await this.#lane
    await this.#netlink.close()
  }

  #inLane<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#lane.then(work)
    this.#lane = result.catch(() => {})
    return result
  }

  #doubt(ifindex: number | undefined): void {
    if (ifindex === undefined) this.#stale = undefined
    else this.#stale?.add(ifindex)
    for (const listener of this.#listeners) listener(ifindex)
  }

  async #refresh(): Promise<void> {
    this.#monitor.drain()
    const stale = this.#stale ?? new Set(await this.#withClsact())
    if (this.#stale === undefined) this.#known.clear()
    // What comes while this reads is read again.
    this.#stale = new Set()
    try {
      for (const ifindex of stale) {
        const found = await this.#ours(ifindex)
        if (found.length > 0) this.#known.set(ifindex, found)
        else this.#known.delete(ifindex)
      }
    } catch (error) {
      this.#stale = undefined
      throw error
    }
  }

  async #withClsact(): Promise<number[]> {
    const qdiscs = await listQdiscs(this.#netlink)
    return qdiscs.flatMap(({ kind, ifindex }) => (kind === 'clsact' ? [ifindex] : []))
  }

  async #all(ifindex: number): Promise<FilterState[]> {
    return (await Promise.all(SIDES.map((side) => listFilters(this.#netlink, ifindex, side)))).flat()
  }

  async #ours(ifindex: number): Promise<OurFilter[]> {
    return (await this.#all(ifindex)).flatMap((filter) => ourFilter(filter) ?? [])
  }

  /** Whether it was made, and not there before; undefined when the device is gone. */
  async #makeQdisc(ifindex: number): Promise<boolean | undefined> {
    const [error] = await this.#netlink.request([addClsact(ifindex)])
    if (error === undefined) return true
    if (error.code === 'ENODEV') return undefined
    if (error.code !== 'EEXIST') throw refused(error, `put a clsact qdisc on interface ${ifindex}`)
    // An `ingress` qdisc would take a filter for egress and run it at ingress.
    const there = (await listQdiscs(this.#netlink)).find((it) => it.ifindex === ifindex && it.handle === CLSACT_HANDLE)
    if (there === undefined || there.kind === 'clsact') return false
    const what = `interface ${ifindex} has an ${there.kind} qdisc where clsact has to be; remove it by`
    throw new KernelError(error.errno, `${what} tc qdisc del dev DEVICE ${there.kind}`)
  }

  async #removeQdisc(ifindex: number): Promise<void> {
    if ((await this.#all(ifindex)).length > 0) return
    const [error] = await this.#netlink.request([deleteClsact(ifindex)])
    if (error && !['ENOENT', 'EINVAL', 'ENODEV'].includes(error.code)) throw error
  }
}

/** Takes off all filters of ours, with the qdiscs that were made for them; resolves to their number. @throws KernelError */
export async function removeFilters(filters: Filters): Promise<number> {
  const all = await filters.list()
  for (const filter of all) await filters.remove(filter)
  return all.length
}

function ourFilter({ ifindex, side, priority, handle, name = '', programId = 0 }: FilterState): OurFilter | undefined {
  for (const kind in KINDS) {
    const place = KINDS[kind as FilterKind]
    if (place.handle !== handle || place.priority !== priority) continue
    const [, set, what, made] = NAME.exec(name) ?? []
    if (what === undefined) return undefined
    return { kind: kind as FilterKind, ifindex, side, set: Number(set), what, programId, madeQdisc: made !== undefined }
  }
  return undefined
}

const refused = (error: KernelError, what: string): KernelError =>
  new KernelError(error.errno, `cannot ${what}: ${error.extack ?? error.meaning}`)
