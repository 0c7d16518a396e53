/**
 * The rows that belong to one binding alone: its MAC in `by_mac` and its slot. The store into the slot is the instant at
 * which a MAC begins to count, ends to count, or gives way to another; everything else is brought in place before it and
 * taken away after it.
 */
import { ENDPOINT_ROWS, ROUTED_NET_BASE } from '../../numbers.ts'
import { KernelRefusal } from '../../plane.ts'
import { inSlices } from '../../slices.ts'
import type { Binding } from './entries.ts'
import type { EndpointKey, EndpointRow } from './layout.ts'
import type { PortMaps } from './maps.ts'
import { CLAIM_ANY, CLAIM_FIRST, CLAIM_NONE } from './numbers.ts'
import { type Account, type Bound, homeAt, type SlotTable } from './slot_table.ts'
import { SlotPool } from './slot-pool.ts'

export interface Found {
  /** Bindings whose rows are missing or different. */
  wronged: Set<string>
  /** Rows and slots of nobody, and what removes them. */
  strays: { name: string; remove(): void }[]
}

type Row = readonly [EndpointKey, EndpointRow]

export class Bindings {
  readonly #rows: PortMaps['byMac']
  readonly #slots: SlotTable
  readonly #pool = new SlotPool(ENDPOINT_ROWS)
  readonly #slotOf = new Map<string, number>()

  constructor(rows: PortMaps['byMac'], slots: SlotTable) {
    this.#rows = rows
    this.#slots = slots
  }

  has(key: string): boolean {
    return this.#slotOf.has(key)
  }

  /** Slot of a binding by its key. */
  slot(key: string): number {
    const slot = this.#slotOf.get(key)
    if (slot === undefined) throw new TypeError(`binding ${key} has no slot`)
    return slot
  }

  /** What passed to and from a binding; undefined when it is unknown. */
  account(key: string): Account | undefined {
    const slot = this.#slotOf.get(key)
    return slot === undefined ? undefined : this.#slots.account(slot)
  }

  /** ifindex of the port that the MAC is at; 0 when no frame of it was seen. */
  home(binding: Pick<Binding, 'net' | 'mac'>): number {
    return this.#rows.get(rowKey(binding))?.home ?? 0
  }

  /** Of `ports`, net by ifindex, those at which no MAC of their net is. */
  vacant(ports: Iterable<readonly [ifindex: number, net: number]>): Map<number, number> {
    return this.#slots.vacant(ports, this.#pool.end)
  }

  /** Keys of the bindings that are at one of these ports. */
  *at(ifindexes: ReadonlySet<number>): Generator<string> {
    if (ifindexes.size === 0) return
    for (const [key, slot] of this.#slotOf) if (ifindexes.has(this.#slots.homeIndex(slot))) yield key
  }

  /** ifindexes of the ports at which MACs are, as far as they were seen. */
  async homes(): Promise<Set<number>> {
    return new Set((await this.#rows.lookupBatch()).flatMap(([, { home }]) => (home === 0 ? [] : [home])))
  }

  /** Nobody is at these ports any more. No frame comes in by them meanwhile. */
  async leave(ifindexes: ReadonlySet<number>): Promise<void> {
    for (const [key] of (await this.#rows.lookupBatch()).filter(([, { home }]) => ifindexes.has(home))) {
      const row = this.#rows.get(key)
      if (row && ifindexes.has(row.home)) this.#put(key, { ...row, home: 0 })
    }
  }

  /** Gives `binding` a slot if it has none. @throws KernelRefusal when all are in use */
  reserve({ key }: Binding): void {
    if (this.#slotOf.has(key)) return
    const slot = this.#pool.take()
    if (slot === undefined) throw new KernelRefusal(`all ${ENDPOINT_ROWS} slots of bound endpoints are in use`)
    this.#slotOf.set(key, slot)
    this.#slots.clear(slot)
  }

  /**
   * Writes the row of the MAC, which does not count yet. `named` is the ifindex of the named port, 0 while it is away; without
   * a name what is known stays, but for one that shall keep the first port and kept another by name: it begins anew.
   * Answers the port that it was at before, unless it is there now.
   */
  prepare(binding: Binding, named: number | undefined, before: Binding | undefined): number | undefined {
    const known = this.#rows.get(rowKey(binding)) ?? (before && this.#rows.get(rowKey(before)))
    const anew = binding.claims === 'first' && before?.port !== undefined
    const home = named ?? (anew ? 0 : (known?.home ?? 0))
    const row = { address: binding.address, claims: claimsOf(binding), home, slot: this.slot(binding.key) }
    this.#put(rowKey(binding), row)
    return known === undefined || known.home === 0 || known.home === home ? undefined : known.home
  }

  /** From this instant the MAC counts, and no other for this binding. */
  switchOn(binding: Binding): void {
    this.#slots.bind(this.slot(binding.key), boundBy(binding))
  }

  switchOff({ key }: Binding): void {
    this.#slots.bind(this.slot(key), undefined)
  }

  /** Removes the row of a MAC that no longer counts. */
  forget(binding: Binding): void {
    this.#rows.delete(rowKey(binding))
  }

  /** Gives the slot back. */
  release({ key }: Binding): void {
    this.#pool.give(this.slot(key))
    this.#slotOf.delete(key)
  }

  /** Takes over what an earlier agent left of the bindings that shall be. Those that are not found have no slot yet. */
  async adopt(bindings: readonly Binding[], home: (binding: Binding) => number | undefined): Promise<Found> {
    const rows = await this.#rows.lookupBatch()
    const byAddress = await grouped(rows)
    const wronged = new Set<string>()
    const used = new Set<number>()
    this.#slotOf.clear()
    await inSlices(bindings, (binding) => {
      const candidates = byAddress.get(`${binding.net}/${binding.address}`) ?? []
      const own = candidates.find(([{ mac }]) => mac === binding.mac)
      const slot = (own ?? candidates[0])?.[1].slot
      if (slot === undefined || slot >= ENDPOINT_ROWS || used.has(slot)) return
      used.add(slot)
      this.#slotOf.set(binding.key, slot)
      const declared = home(binding)
      if (own !== undefined) this.#repeat(own[0], slot, own[1].home)
      const placed = own !== undefined && (declared === undefined || own[1].home === declared)
      const whole = placed && own[1].claims === claimsOf(binding)
      if (!whole || !same(this.#slots.bound(slot), boundBy(binding))) wronged.add(binding.key)
    })
    const lost = await this.#boundBeside(used)
    // Until it is switched off, nobody else may get such a slot.
    this.#pool.adopt(new Set([...used, ...lost]))
    const strays = lost.map((slot) => ({ name: `slots/${slot}`, remove: () => this.#switchOffStray(slot) }))
    return { wronged, strays: [...(await this.#strayRows(rows, bindings)), ...strays] }
  }

  /** Writes a row, and repeats its home in the slot. */
  #put(key: EndpointKey, row: EndpointRow): void {
    const before = this.#slots.home(row.slot)
    this.#rows.set(key, row)
    this.#slots.place(row.slot, before, key.net, row.home)
  }

  /** A slot that does not repeat the home of its row, as where an earlier program did not know how. */
  #repeat(key: EndpointKey, slot: number, home: number): void {
    if (this.#slots.home(slot) === homeAt(key.net, home)) return
    const before = this.#slots.home(slot)
    const row = this.#rows.get(key)
    if (row?.slot === slot) this.#slots.place(slot, before, key.net, row.home)
  }

  /** Rows of MACs that no binding has. */
  async #strayRows(rows: readonly Row[], bindings: readonly Binding[]): Promise<Found['strays']> {
    const wanted = new Set<string>()
    await inSlices(bindings, ({ net, mac }) => wanted.add(`${net}/${mac}`))
    const strays: Found['strays'] = []
    await inSlices(rows, ([key]) => {
      const name = `${key.net}/${key.mac}`
      if (!wanted.has(name)) strays.push({ name: `by_mac/${name}`, remove: () => this.#rows.delete(key) })
    })
    return strays
  }

  /** Slots that count for nobody, and yet count. */
  async #boundBeside(used: ReadonlySet<number>): Promise<number[]> {
    const found: number[] = []
    await inSlices(numbersBelow(ENDPOINT_ROWS), (slot) => {
      if (!used.has(slot) && this.#slots.bound(slot) !== undefined) found.push(slot)
    })
    return found
  }

  #switchOffStray(slot: number): void {
    this.#slots.bind(slot, undefined)
    this.#pool.give(slot)
  }
}

/** CLAIM_*. A named port is claimed by nobody: the agent says which device has the name. */
function claimsOf({ port, claims }: Binding): number {
  if (port !== undefined || claims === 'none') return CLAIM_NONE
  return claims === 'first' ? CLAIM_FIRST : CLAIM_ANY
}
const rowKey = ({ net, mac }: Pick<Binding, 'net' | 'mac'>): EndpointKey => ({ net, mac })
const boundBy = ({ net, mac }: Binding): Bound => ({ mac, routed: net >= ROUTED_NET_BASE })
const same = (a: Bound | undefined, b: Bound): boolean => a?.mac === b.mac && a.routed === b.routed

async function grouped(rows: readonly Row[]): Promise<Map<string, Row[]>> {
  const groups = new Map<string, Row[]>()
  await inSlices(rows, (row) => {
    const name = `${row[0].net}/${row[1].address}`
    const group = groups.get(name)
    if (group) group.push(row)
    else groups.set(name, [row])
  })
  return groups
}

function* numbersBelow(end: number): Generator<number> {
  for (let number = 0; number < end; number++) yield number
}
