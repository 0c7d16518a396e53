/**
 * The virtual addresses in the maps. A change is written so that packets meet the old or the new: first what nothing
 * refers to yet, then the instant (the ring, or the row of the virtual address), then the end of what nothing needs.
 */

import { LB_DSR, LB_PLACES, LB_SHARERS, LB_VIPS } from '../../numbers.ts'
import { KernelRefusal } from '../../plane.ts'
import { bytes, u32 } from '../codec.ts'
import { createMap, MAP_TYPE } from '../map.ts'
import { ALGORITHMS, sameFrontend, type VipBackend, type VipEntry } from './entries.ts'
import type { BalancerMaps } from './maps.ts'
import { Publisher } from './publisher.ts'
import { isLive, type Live, pickOf, RING_BYTES, ringOf } from './ring.ts'
import { type Frontend, familyOf, vipLabel } from './rows.ts'

/** A backend in its row. */
export interface Placed {
  backend: VipBackend
  place: number
  generation: number
}

/** A virtual address that packets meet. */
export interface Standing {
  entry: VipEntry
  index: number
  places: Map<string, Placed>
}

const ringBytes = bytes(RING_BYTES)

export class VipTable {
  readonly #maps: BalancerMaps
  readonly #publisher: Publisher
  readonly #held = new Map<string, Standing>()
  readonly #indexes = new Set<number>()
  /** What the last change has ended, so that its undoing gives connections back what they had. */
  #ended = new Map<string, Standing>()
  /** Of a row the generation whose connections `active` counts: they are counted on when its deletion is taken back. */
  readonly #counted = new Map<number, number>()
  #generation: number

  constructor(maps: BalancerMaps) {
    this.#maps = maps
    this.#publisher = new Publisher(maps.rings)
    this.#generation = maps.settings.get(0)?.generation ?? 0
  }

  get size(): number {
    return this.#held.size
  }

  all(): Iterable<Standing> {
    return this.#held.values()
  }

  /** By the key of the entry. */
  get(key: string): Standing | undefined {
    return this.#held.get(key)
  }

  /** Takes over what an earlier agent has written. */
  adopt(standing: Standing): void {
    const { entry, index, places } = standing
    this.#held.set(entry.key, standing)
    this.#indexes.add(index)
    for (const { place, generation } of places.values()) this.#counted.set(index * LB_PLACES + place, generation)
  }

  /** A new change begins: what the one before has ended stays so. */
  settle(): void {
    this.#ended = new Map()
  }

  /** @throws KernelRefusal, KernelError */
  async put(entry: VipEntry): Promise<void> {
    const before = this.#held.get(entry.key)
    if (before !== undefined && !(sameFrontend(before.entry, entry) && before.entry.dsr === entry.dsr)) {
      await this.drop(entry.key)
      return this.put(entry)
    }
    const last = before ?? this.#remembered(entry)
    const index = before?.index ?? this.#freeIndex(last?.index)
    const places = this.#place(entry, last?.places ?? new Map())
    const gone = [...(before?.places.values() ?? [])].filter(
      ({ backend, generation }) => places.get(backend.id)?.generation !== generation,
    )
    this.#requireRoom(entry)
    // Others may be put in while the ring is published.
    this.#indexes.add(index)
    try {
      for (const placed of places.values()) this.#writeRow(entry, index, placed, before?.places.get(placed.backend.id))
      this.#setServed(entry, [...places.values()], [])
      await this.#publish(entry, index, places)
      this.#writeVip(entry, index, before === undefined)
    } catch (error) {
      this.#takeBack(entry, index, places, before)
      throw error
    }
    for (const { backend, place } of places.values()) {
      this.#maps.backends.setState(index * LB_PLACES + place, backend.state)
    }
    this.#held.set(entry.key, { entry, index, places })
    this.#setServed(entry, [], gone)
    for (const it of gone) this.#clearRow(index, it.place, places)
    if (before === undefined) this.#ended.delete(entry.key)
  }

  /** What a change has written that failed. What it has changed is put right by whoever puts the entry before again. */
  #takeBack(entry: VipEntry, index: number, places: ReadonlyMap<string, Placed>, before: Standing | undefined): void {
    const stood = [...(before?.places.values() ?? [])]
    const fresh = [...places.values()].filter((it) => !stood.some(({ generation }) => generation === it.generation))
    this.#setServed(entry, [], fresh)
    for (const { place } of fresh) this.#clearRow(index, place, new Map())
    if (before !== undefined) return
    this.#indexes.delete(index)
    this.#maps.rings.delete(index)
    this.#maps.labels.delete(vipLabel(index))
    if (entry.port === 0) this.#writeSettings()
  }

  async drop(key: string): Promise<void> {
    const standing = this.#held.get(key)
    if (standing === undefined) return
    const { entry, index, places } = standing
    const { address, port, protocol } = entry
    const front = { address, port, protocol }
    if (this.#maps.vips[familyOf(address)].delete(front)) this.#maps.hints.remove(front)
    this.#held.delete(key)
    this.#indexes.delete(index)
    this.#ended.set(key, standing)
    this.#setServed(entry, [], [...places.values()])
    for (const { place } of places.values()) this.#clearRow(index, place, new Map())
    this.#maps.rings.delete(index)
    this.#maps.labels.delete(vipLabel(index))
    if (port === 0) this.#writeSettings()
  }

  #remembered(entry: VipEntry): Standing | undefined {
    const last = this.#ended.get(entry.key)
    return last !== undefined && !this.#indexes.has(last.index) && sameFrontend(last.entry, entry) ? last : undefined
  }

  #freeIndex(wish: number | undefined): number {
    if (wish !== undefined) return wish
    for (let index = 0; index < LB_VIPS; index++) if (!this.#indexes.has(index)) return index
    throw new KernelRefusal(`no more than ${LB_VIPS} virtual addresses can be had`)
  }

  /** Rows for the backends: one that stays keeps its own, one that is new gets one that no connection knows. */
  #place({ backends }: VipEntry, before: ReadonlyMap<string, Placed>): Map<string, Placed> {
    const stays = ({ id, address, port }: VipBackend) => {
      const placed = before.get(id)
      return placed?.backend.address === address && placed.backend.port === port ? placed : undefined
    }
    const taken = new Set([...before.values()].map(({ place }) => place))
    const places = new Map<string, Placed>()
    let next = 0
    for (const backend of backends) {
      const placed = stays(backend)
      if (placed !== undefined) {
        places.set(backend.id, { ...placed, backend })
        continue
      }
      while (taken.has(next)) next++
      if (next >= LB_PLACES) throw new KernelRefusal(`a virtual address has at most ${LB_PLACES} backends`)
      taken.add(next)
      places.set(backend.id, { backend, place: next, generation: this.#nextGeneration() })
    }
    this.#writeSettings()
    return places
  }

  #nextGeneration(): number {
    this.#generation = this.#generation >= 0xffffffff ? 1 : this.#generation + 1
    return this.#generation
  }

  #requireRoom(entry: VipEntry): void {
    const { served } = this.#maps
    for (const backend of entry.backends) {
      const { id, address, port } = backend
      const standing = served[familyOf(entry.address)].get(answering(entry, backend)) ?? []
      if (standing.length < LB_SHARERS || standing.some((one) => isOf(one, entry))) continue
      throw new KernelRefusal(
        `backend ${id}: ${address} port ${port} serves ${LB_SHARERS} virtual addresses already: give it another port`,
      )
    }
  }

  #writeRow({ algorithm }: VipEntry, index: number, placed: Placed, before: Placed | undefined): void {
    const { backends, labels, active } = this.#maps
    const { backend, place, generation } = placed
    const row = index * LB_PLACES + place
    const { id, weight, address, port, state } = backend
    labels.set(row, { id, weight, algorithm: ALGORITHMS.indexOf(algorithm) })
    if (before?.generation === generation && backends.generation(row) === generation) return
    if (this.#counted.get(row) !== generation) Atomics.store(active, row, 0n)
    this.#counted.set(row, generation)
    backends.fill(row, { address, port, state, generation })
  }

  #clearRow(index: number, place: number, now: ReadonlyMap<string, Placed>): void {
    if ([...now.values()].some((it) => it.place === place)) return
    const row = index * LB_PLACES + place
    this.#maps.backends.clear(row)
    this.#maps.labels.delete(row)
  }

  /** Writes down for backends that they serve a virtual address, or that they do no longer. */
  #setServed(entry: VipEntry, begin: readonly Placed[], end: readonly Placed[]): void {
    const { address, port, protocol } = entry
    const map = this.#maps.served[familyOf(address)]
    const own: Frontend = { address, port, protocol }
    for (const { backend } of begin) {
      const key = answering(entry, backend)
      const standing = map.get(key) ?? []
      if (standing.some((one) => isOf(one, entry))) continue
      if (standing.length === 0) this.#maps.hints.add(key)
      map.set(key, [...standing, own])
    }
    const places = this.#held.get(entry.key)?.places ?? new Map<string, Placed>()
    for (const { backend } of end) {
      // Another backend of the same may be at the same address and port.
      if ([...places.values()].some((it) => sameAnswers(entry, it.backend, backend))) continue
      const key = answering(entry, backend)
      const rest = (map.get(key) ?? []).filter((one) => !isOf(one, entry))
      if (rest.length > 0) map.set(key, rest)
      else if (map.delete(key)) this.#maps.hints.remove(key)
    }
  }

  async #publish({ algorithm }: VipEntry, index: number, places: ReadonlyMap<string, Placed>): Promise<void> {
    const ring = createMap({ name: 'lb_ring', type: MAP_TYPE.array, maxEntries: 1, key: u32, value: ringBytes })
    try {
      ring.set(0, ringOf(algorithm, liveOf(places)))
      await this.#publisher.publish(index, ring.fd)
    } finally {
      ring.close()
    }
  }

  #writeVip(entry: VipEntry, index: number, isNew: boolean): void {
    const { id, address, port, protocol, algorithm, dsr } = entry
    const weight = 0
    this.#maps.labels.set(vipLabel(index), { id, weight, algorithm: ALGORITHMS.indexOf(algorithm) })
    if (isNew && port === 0) this.#writeSettings(1)
    const row = { index, pick: pickOf(algorithm), flags: dsr ? LB_DSR : 0 }
    const front = { address, port, protocol }
    if (isNew) this.#maps.hints.add(front)
    this.#maps.vips[familyOf(address)].set(front, row)
  }

  #writeSettings(more = 0): void {
    const any = [...this.#held.values()].filter(({ entry }) => entry.port === 0).length
    this.#maps.settings.set(0, { anyPort: any + more, generation: this.#generation })
  }
}

export const liveOf = (places: ReadonlyMap<string, Placed>): Live[] =>
  [...places.values()]
    .filter(({ backend }) => isLive(backend))
    .map(({ backend: { id, weight }, place }) => ({ id, place, weight }))

/** What a backend's answers come from: with direct server return from the virtual address itself. */
export const answering = ({ address, port, protocol, dsr }: VipEntry, backend: VipBackend): Frontend =>
  dsr ? { address, port, protocol } : { address: backend.address, port: backend.port, protocol }

const sameAnswers = ({ dsr }: VipEntry, one: VipBackend, other: VipBackend): boolean =>
  dsr || (one.address === other.address && one.port === other.port)

const isOf = (one: Frontend, { address, port, protocol }: VipEntry): boolean =>
  one.address === address && one.port === port && one.protocol === protocol
