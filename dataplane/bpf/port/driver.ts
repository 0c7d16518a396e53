/**
 * The driver of what the programs on the ports of `br-work` know: entries in, rows of their pinned maps out. The rows do
 * not tell all of an entry, so an observation is given what shall be, and compares.
 */
import type { Entry, Passage } from '../../entry.ts'
import { KernelError } from '../../libc.ts'
import { WORK_BRIDGE } from '../../numbers.ts'
import { type Driver, KernelRefusal } from '../../plane.ts'
import { inSlices } from '../../slices.ts'
import type { Bindings } from './bindings.ts'
import type { Binding, PortEntry, PortKind, Stray, TenantNet } from './entries.ts'
import type { Guard } from './guard.ts'
import { carriesNothing } from './guarded.ts'
import { type Named, names } from './named.ts'
import { damaged, inTurn, whole } from './passages.ts'
import { type Surroundings, type Tables, type Wishes, wishesOf } from './tables.ts'

/** The area that renders each kind; a kind that no loaded area renders is left alone. */
export type KindOwners = Readonly<Partial<Record<PortKind, string>>>

export interface PortParts {
  tables: Tables
  bindings: Bindings
  guard: Guard
  named: Named
  owners: KindOwners
  /** Pays the debt of a tenant's bucket, which is one at the rate of before, or of another tenant. */
  refill(bucket: number): void
  /** A binding whose port is not declared, and is not known or has come back: somebody should ask where its MAC is. */
  missing(binding: Binding): void
  /** The device at which a binding is that shall keep the first one: it is not known by name yet. */
  kept(binding: Binding, ifindex: number): void
}

export interface PortDriver extends Driver {
  /** Puts in force what entries ask of ports of these names, which came or went. */
  portsChanged(names: readonly string[]): void
  /** Tells of every binding anew that shall keep the device at which it is, and of which it is not known by name. */
  tellKept(): Promise<void>
}

/** Kind whose entries ask for the rows of a table: without any, a row is a stray of the area that renders it. */
const KIND_OF: Readonly<Record<keyof Tables, PortKind>> = {
  nets: 'net',
  privateRanges: 'net',
  hostRanges: 'net',
  netOfMac: 'binding',
  formers: 'former',
  addresses: 'binding',
  vlans: 'vlan',
  peers: 'peer',
  macbinds: 'macbind',
  locks: 'macbind',
  settings: 'macbind',
  tenantNets: 'tenant_net',
  anyTenantNet: 'tenant_net',
}
// The keys of the table are its names.
const TABLES = Object.keys(KIND_OF) as (keyof Tables)[]
const KINDS: readonly PortEntry['kind'][] = [
  'net',
  'binding',
  'macbind',
  'vlan',
  'tenant_net',
  'uplink',
  'overlay',
  'peer',
  'closing',
  'former',
  'stray',
]

/** A table, whatever its keys and values are. */
interface AnyTable {
  of(owner: string): readonly unknown[]
  note(owner: string, rows: readonly unknown[]): void
  place(owner: string, rows: readonly unknown[]): void
}

export function portDriver(parts: PortParts): PortDriver {
  const { tables, bindings, guard, named, owners, refill, missing, kept } = parts
  const held = new Map<string, PortEntry>()
  /** Ports that came or went during an observation. */
  let away: string[] | undefined
  /** Something was observed before. */
  let known = false
  /** Bindings at some ports ended: those ports may be nobody's now. */
  let left = false
  const around: Surroundings = {
    port: (name) => guard.port(name),
    overlay: (name) => guard.overlay(name),
    slot: (key) => bindings.slot(key),
  }
  const homeOf = ({ port }: Binding) => (port === undefined ? undefined : (guard.port(port) ?? 0))

  /** Notes or writes what the entry of `key` asks for, table by table. */
  function ask(how: 'note' | 'place', key: string, wishes: Wishes): void {
    for (const name of TABLES) {
      // Wishes and tables of one name have the same keys and values, which the compiler cannot follow.
      const table = tables[name] as unknown as AnyTable
      const rows = wishes[name] ?? []
      if (rows.length > 0 || table.of(key).length > 0) table[how](key, rows)
    }
  }

  function put(entry: PortEntry): void {
    const before = held.get(entry.key)
    held.set(entry.key, entry)
    named.put(entry)
    if (entry.kind === 'tenant_net' && !sameLimit(entry, before)) refill(entry.bucket)
    if (entry.kind === 'binding') putBinding(entry, before?.kind === 'binding' ? before : undefined)
    else ask('place', entry.key, wishesOf(entry, around))
    for (const name of names(entry, before)) guard.declare(name)
  }

  /** Everything that the new MAC needs, then the instant, then the end of everything that only the old one needed. */
  function putBinding(entry: Binding, before: Binding | undefined): void {
    bindings.reserve(entry)
    const wishes = wishesOf(entry, around)
    const moved = before !== undefined && before.mac !== entry.mac
    const { netOfMac = [] } = moved ? wishesOf(before, around) : {}
    ask('place', entry.key, moved ? { ...wishes, netOfMac: [...(wishes.netOfMac ?? []), ...netOfMac] } : wishes)
    const home = bindings.prepare(entry, homeOf(entry), before)
    bindings.switchOn(entry)
    if (home !== undefined) left = true
    follow(entry)
    if (!moved) return
    ask('place', entry.key, wishes)
    bindings.forget(before)
  }

  /** What the agent has to do about a binding that no name has placed. */
  function follow(entry: PortEntry): void {
    if (entry.kind !== 'binding' || entry.port !== undefined || !bindings.has(entry.key)) return
    const home = bindings.home(entry)
    if (home === 0 && entry.claims !== 'none') missing(entry)
    if (home !== 0 && entry.claims === 'first') kept(entry, home)
  }

  function drop({ key }: PortEntry): void {
    const before = held.get(key)
    if (before === undefined) return
    if (before.kind === 'binding' && bindings.has(key)) {
      bindings.switchOff(before)
      left = true
      bindings.forget(before)
      bindings.release(before)
    }
    ask('place', key, {})
    held.delete(key)
    named.drop(before)
    for (const name of names(before)) guard.declare(name)
  }

  function step({ before, after }: Passage): void {
    if (before?.kind === 'stray') removeStray(before)
    else if (after !== undefined && isPort(after) && after.kind !== 'stray') put(whole(after))
    else if (after === undefined && before !== undefined && isPort(before)) drop(before)
  }

  function removeStray({ remove }: Stray): void {
    remove()
    left = true
  }

  /** Opens the ports that are nobody's now: whoever was there hears nothing of the net any more. */
  function reopen(): void {
    if (!left) return
    left = false
    guard.reopen((ports) => bindings.vacant(ports))
  }

  function strayOf(kind: PortKind, { name, remove }: { name: string; remove(): void }): Stray[] {
    const owner = owners[kind]
    return owner === undefined ? [] : [{ kind: 'stray', key: `${owner}/stray/${name}`, remove }]
  }

  /** An overlay that is about to be made is guarded when it is there, and one that is about to go needs no other role. */
  function changesRole({ before, after }: Passage): boolean {
    if (after?.kind === 'overlay') return guard.port(after.link) !== undefined
    return (after ?? before)?.kind === 'uplink'
  }

  /** Who is attached to a port that carries nothing would be told that all is well. @throws KernelRefusal */
  function requireGuarded(entry: Entry | undefined): void {
    if (entry?.kind !== 'binding') return
    for (const name of [entry.port, WORK_BRIDGE]) {
      const why = name && guard.refused().get(name)
      if (why) throw new KernelRefusal(carriesNothing(name, why))
    }
  }

  async function observe(desired: readonly Entry[] = []): Promise<Entry[]> {
    const wanted: PortEntry[] = []
    held.clear()
    named.clear()
    await inSlices(desired, (entry) => {
      if (!isPort(entry)) return
      wanted.push(entry)
      held.set(entry.key, entry)
      named.put(entry)
    })
    await guard.sync()
    // Until everything is noted, a row that several ask for cannot be written for one of them.
    away = []
    try {
      return await compared(wanted)
    } finally {
      const changed = away
      away = undefined
      portsChanged(changed)
    }
  }

  async function compared(wanted: readonly PortEntry[]): Promise<Entry[]> {
    for (const table of TABLES) tables[table].forgetAll()
    const found = await bindings.adopt(
      wanted.filter((entry) => entry.kind === 'binding'),
      homeOf,
    )
    const strays = found.strays.flatMap((stray) => strayOf('binding', stray))
    const present = wanted.filter((entry) => entry.kind !== 'binding' || bindings.has(entry.key))
    await inSlices(present, (entry) => ask('note', entry.key, wishesOf(entry, around)))
    const { wronged } = found
    for (const name of TABLES) {
      const findings = await tables[name].check()
      for (const owner of findings.wronged) wronged.add(owner)
      const named = findings.strays.map(({ name: row, remove }) => ({ name: `${name}/${row}`, remove }))
      strays.push(...named.flatMap((stray) => strayOf(KIND_OF[name], stray)))
    }
    // Guarding waits for nobody: it is done, and only told.
    const mended = guard.mended().map((name) => ({ name: `unguarded/${name}`, remove() {} }))
    strays.push(...mended.flatMap((stray) => strayOf('uplink', stray)))
    if (!known) await resume(present)
    known = true
    left = true
    reopen()
    return [...present.map((entry) => (wronged.has(entry.key) ? damaged(entry) : entry)), ...strays]
  }

  /** What an earlier agent had not come to: ports that became nobody's, and MACs that were never seen. */
  async function resume(present: readonly PortEntry[]): Promise<void> {
    guard.homes(await bindings.homes())
    await inSlices(present, follow)
  }

  function portsChanged(changed: readonly string[]): void {
    if (away) return void away.push(...changed)
    for (const key of changed.flatMap((name) => [...named.keys(name)])) {
      const entry = held.get(key)
      if (entry !== undefined && (entry.kind !== 'binding' || bindings.has(key))) put(entry)
    }
    reopen()
    // A port that comes back is open: somebody else may be behind it by now. Who is there still, answers.
    for (const key of bindings.at(new Set(changed.flatMap((name) => guard.port(name) ?? [])))) {
      const entry = held.get(key)
      if (entry?.kind === 'binding' && entry.port === undefined) missing(entry)
    }
  }

  return {
    name: 'port',
    kinds: KINDS,
    observe,
    async apply(diff, mode) {
      if (mode !== 'restore') for (const { after } of diff) requireGuarded(after)
      const done: Passage[] = []
      try {
        await inSlices(inTurn(diff), (passage) => {
          done.push(passage)
          step(passage)
        })
        if (diff.some(changesRole)) await guard.sync()
      } catch (error) {
        for (const { before, after } of done.reverse()) {
          step({ ...(after && { before: after }), ...(before && { after: before }) })
        }
        throw error instanceof KernelError ? new KernelRefusal(error.message) : error
      } finally {
        reopen()
      }
    },
    portsChanged,
    tellKept: () =>
      inSlices(held.values(), (entry) => {
        if (entry.kind === 'binding' && entry.claims === 'first') follow(entry)
      }),
    pending: () =>
      Array.from(guard.refused(), ([name, why]) => ({ key: `port/${name}`, reason: carriesNothing(name, why) })),
    changedByOthers: async () => guard.hasMended(),
    close: () => guard.close(),
  }
}

const sameLimit = (one: TenantNet, other: PortEntry | undefined): boolean =>
  other?.kind === 'tenant_net' && other.bucket === one.bucket && other.rate === one.rate

const isPort = (entry: Entry): entry is PortEntry => KINDS.some((kind) => kind === entry.kind)
