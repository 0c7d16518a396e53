/**
 * The driver of limits, pools, quotas and the ceiling: entries in, HTB classes and rows of pinned maps out.
 *
 * No frame is lost or passes unlimited by a change: a class is there before a row leads to it, and what waits in a class
 * is let out before the row leads elsewhere; only then the class goes. A change is carried out whole, step by step.
 */
import type { Entry, Passage } from '../entry.ts'
import { KernelError } from '../libc.ts'
import { type Driver, KernelRefusal, UncertainOutcome } from '../plane.ts'
import { inSlices } from '../slices.ts'
import {
  hasClass,
  openedAt,
  type Placed,
  placeOf,
  poolClasses,
  sameAsked,
  sameClass,
  shapeClasses,
  shardOf,
} from './classes.ts'
import { isShaping, type Leftover, type RatePool, SHAPING_KINDS, type Shape, type ShapingEntry } from './entries.ts'
import type { ShapeRow, ShapingMaps } from './maps.ts'
import { SHAPE_SHARDS, SHAPE_SLOW } from './numbers.ts'
import type { Pairs } from './pairs.ts'
import type { Queues } from './queues.ts'
import type { Quotas } from './quotas.ts'
import { standingClasses } from './standing.ts'

export interface DriverParts {
  maps: Pick<ShapingMaps, 'shapes' | 'ceilings'>
  pairs: Pairs
  queues: Queues
  quotas: Quotas
  /** Area whose entries these are. */
  area: string
  /** Hears what was said of the devices until now. */
  listen(): void
  changedByOthers(): boolean
  /** Everything was looked at: what others did before does not count any more. */
  settled(): void
  close(): Promise<void>
}

const NO_DEBTS = { up: 0n, down: 0n }

export function shapingDriver(parts: DriverParts): Driver {
  const { maps, pairs, queues, quotas, area } = parts

  /** How the row of a MAC shall be. The programs have noted the port it is at, which stays. */
  function rowOf(entry: Shape): ShapeRow {
    const { mac, number, up, down, quota } = entry
    const pair = hasClass(entry) ? pairs.get(shardOf(entry)) : undefined
    return {
      home: maps.shapes.get(mac)?.home ?? 0,
      interface: entry.interface,
      near: pair?.near ?? 0,
      far: pair?.far ?? 0,
      up: up && pair ? number : 0,
      down: down && pair ? number : 0,
      slow: quota?.action === 'throttle' && pair ? SHAPE_SLOW + number : 0,
      quota: quota === undefined ? 0 : quota.slot + 1,
    }
  }

  /** The row without any class: what comes now does not wait. */
  function lead(mac: string, entry: Shape | undefined): void {
    if (entry !== undefined) {
      if (entry.quota) quotas.put(entry.quota)
      maps.shapes.set(mac, rowOf(entry))
      return
    }
    const row = maps.shapes.get(mac)
    if (row !== undefined) maps.shapes.set(mac, { ...row, up: 0, down: 0, slow: 0, quota: 0 })
  }

  async function carryOut(diff: readonly Passage[]): Promise<void> {
    parts.listen()
    const { coming, going, shards } = await classesOf(diff)
    // Rows lead to devices by their numbers, also where no class is another.
    for (const shard of shards) await pairs.ensure(shard)
    await queues.put(coming)
    await queues.empty(going)
    const gone: string[] = []
    await inSlices(diff, ({ before, after }) => {
      if (after?.kind === 'ceiling' || before?.kind === 'ceiling') {
        maps.ceilings.set(0, { rate: after?.kind === 'ceiling' ? after.rate : 0, debts: NO_DEBTS })
      }
      const old = macOf(before)
      if (after?.kind === 'shape') lead(after.mac, after)
      else if (old !== undefined) {
        lead(old, undefined)
        gone.push(old)
      }
    })
    // What came to the class before the row led elsewhere.
    await queues.empty(going)
    await queues.remove(going)
    // Last: what was let out finds by the row where it came from.
    for (const mac of gone) maps.shapes.delete(mac)
  }

  async function observe(desired: readonly Entry[] = []): Promise<Entry[]> {
    parts.listen()
    const wanted = desired.filter(isShaping)
    await pairs.look(Array.from({ length: SHAPE_SHARDS }, (_, shard) => shard))
    const standing = await standingClasses(queues)
    const rows = new Map(await maps.shapes.lookupBatch())
    const seen: Entry[] = []
    await inSlices(wanted, (entry) => {
      const found = look(entry, standing, rows)
      if (found !== undefined) seen.push(found)
    })
    // What is left of both, nobody asks for.
    for (const mac of rows.keys()) seen.push(leftover({ mac }))
    for (const { shard, way, minor } of standing.values()) seen.push(leftover({ shard, way, minor }))
    const rate = maps.ceilings.get(0)?.rate ?? 0
    if (rate !== 0 && !wanted.some(({ kind }) => kind === 'ceiling')) {
      seen.push({ kind: 'ceiling', key: `${area}/ceiling`, rate })
    }
    parts.settled()
    return seen
  }

  type Standing = Awaited<ReturnType<typeof standingClasses>>

  /** The entry as the kernel holds it; takes what is its out of both. */
  function look(entry: ShapingEntry, standing: Standing, rows: Map<string, ShapeRow>): Entry | undefined {
    if (entry.kind === 'leftover') return undefined
    if (entry.kind === 'ceiling') {
      const rate = maps.ceilings.get(0)?.rate ?? 0
      return rate === 0 ? undefined : { ...entry, rate }
    }
    const asked = classesAsked(entry)
    const found = asked.map((it) => standing.get(placeOf(it)))
    for (const it of asked) standing.delete(placeOf(it))
    const whole = asked.every((it, at) => {
      const state = found[at]
      return state !== undefined && sameClass(state, it)
    })
    if (entry.kind === 'rate_pool') {
      return found.every((it) => it === undefined) ? undefined : whole ? entry : { ...entry, damaged: true }
    }
    const row = rows.get(entry.mac)
    rows.delete(entry.mac)
    if (row === undefined) return undefined
    const held = entry.quota === undefined || quotas.holds(entry.quota)
    return whole && held && sameRow(row, rowOf(entry)) ? entry : { ...entry, damaged: true }
  }

  const leftover = (what: Leftover['what']): Leftover => ({
    kind: 'leftover',
    key: `${area}/leftover/${'mac' in what ? what.mac : placeOf(what)}`,
    what,
  })

  return {
    name: 'shaping',
    kinds: SHAPING_KINDS,
    hold: () => pairs.hold(),
    observe,
    async apply(diff) {
      try {
        await carryOut(diff)
      } catch (error) {
        await carryOut(diff.map(({ before, after }) => reverse(before, after))).catch((cause: unknown) => {
          throw new UncertainOutcome('limits were refused, and what came before could not be undone', { cause })
        })
        throw error instanceof KernelError ? new KernelRefusal(error.message) : error
      }
    },
    changedByOthers: async () => {
      parts.listen()
      return parts.changedByOthers()
    },
    close: parts.close,
  }
}

const reverse = (before: Entry | undefined, after: Entry | undefined): Passage => ({
  ...(after && { before: after }),
  ...(before && { after: before }),
})

function macOf(entry: Entry | undefined): string | undefined {
  if (entry?.kind === 'shape') return entry.mac
  return entry?.kind === 'leftover' && 'mac' in entry.what ? entry.what.mac : undefined
}

function classesAsked(entry: Entry | undefined): Placed[] {
  if (entry?.kind === 'shape') return shapeClasses(entry as Shape)
  return entry?.kind === 'rate_pool' ? poolClasses(entry as RatePool) : []
}

/** What a change makes or makes other, what it removes, and where the classes of what shall be are. */
async function classesOf(diff: readonly Passage[]) {
  const asked = new Map<string, Placed>()
  const had: { it: Placed; place: string; whole: boolean }[] = []
  const going: Placed[] = []
  const shards = new Set<number>()
  await inSlices(diff, ({ before, after }) => {
    for (const it of classesAsked(after)) {
      asked.set(placeOf(it), it)
      shards.add(it.shard)
    }
    const whole = isWhole(before)
    for (const it of classesAsked(before)) had.push({ it, place: placeOf(it), whole })
    if (before?.kind === 'leftover' && after === undefined && 'minor' in before.what) going.push(openedAt(before.what))
  })
  const same = new Set<string>()
  await inSlices(had, ({ it, place, whole }) => {
    const next = asked.get(place)
    if (next === undefined) going.push(it)
    else if (whole && sameAsked(next, it)) same.add(place)
  })
  return { coming: [...asked].flatMap(([place, it]) => (same.has(place) ? [] : [it])), going, shards }
}

/** What stands in the kernel as it says. */
const isWhole = (entry: Entry | undefined): boolean => entry !== undefined && !('damaged' in entry)

const sameRow = (one: ShapeRow, other: ShapeRow): boolean =>
  (Object.keys(one) as (keyof ShapeRow)[]).every((field) => one[field] === other[field])
