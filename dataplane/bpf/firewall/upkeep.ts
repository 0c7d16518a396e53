/** What is done to the classifier's memory besides changes: what they left behind, more room, and what was found. */

import { inSlices } from '../../slices.ts'
import { type BpfMap, createMapLater } from '../map.ts'
import { Arena, arenaMap } from './arena.ts'
import { type Classifier, noRemains, type Remains } from './classifier.ts'
import type { FilterFamily, Standing } from './family.ts'
import { deviceOf, FROM, HITS, type Image, idOf, UNTIL, WINDOW, word } from './image.ts'
import { NoRoom } from './room.ts'

/** Cells of an arena at first, and the factor by which it grows. */
export const FIRST_CELLS = 4096
const GROWTH = 4
/** Runs that are tidied before others may go on; takes less than a millisecond. */
const SWEPT_AT_ONCE = 256
/** The same for what is free. */
const GIVEN_AT_ONCE = 8192
/** 256 MiB of IPv4 rules, twice that of IPv6. */
const MOST_CELLS = 1 << 22

/**
 * Does away with what changes left behind, after a grace period that the caller has waited for. What that leaves behind
 * in turn is with the classifier. True when something of `remains` is still to be done, which also stays when it throws:
 * others wait meanwhile, so it does a part. @throws NoRoom
 */
export async function sweep(classifier: Classifier, remains: readonly Remains[]): Promise<boolean> {
  for (const { family, arena, generation, freed, cells, slots, gone } of remains) {
    classifier.uncount(gone.splice(0))
    // With a larger arena in its place nothing of this one matters any longer.
    if (family.arena !== arena) continue
    for (const [first, count] of freed.splice(-GIVEN_AT_ONCE)) arena.room.give(first, count)
    for (const cell of cells.splice(-GIVEN_AT_ONCE)) arena.room.give(cell, 1)
    const next = noRemains(family, generation)
    try {
      for (let left = SWEPT_AT_ONCE; left > 0 && slots.length > 0; left--) {
        const block = arena.tidy(slots[slots.length - 1] ?? 0, generation)
        if (block) next.freed.push(block)
        slots.pop()
      }
    } finally {
      classifier.leave(next)
    }
  }
  classifier.announce()
  return remains.some(({ family, arena, ...left }) => {
    return family.arena === arena && [left.slots, left.freed, left.cells].some(({ length }) => length > 0)
  })
}

/** What a rule takes at most where ranges are not filed in parts: a run twice, its hits, a line, and gaps. */
const CELLS_PER_RULE = 4

/** Cells of an arena in which so many rules find room. */
export function cellsFor(rules: number): number {
  let cells = FIRST_CELLS
  while (cells < rules * CELLS_PER_RULE && cells < MOST_CELLS) cells *= GROWTH
  return cells
}

/**
 * Moves a family's rules into a larger arena, and packets with them: one of `cells` or the next size. The caller waits a
 * grace period before, so that all packets live in the generation of now.
 * @throws NoRoom when it is as large as can be
 */
export async function grow(
  family: FilterFamily,
  outer: BpfMap<number, number>,
  cells = family.arena.cells * GROWTH,
): Promise<void> {
  if (cells > MOST_CELLS) throw new NoRoom('the rules take more memory than the classifier may have')
  const map = await createMapLater(arenaMap(family.family, cells))
  const old = family.arena
  try {
    const next = new Arena(family.family, { fd: map.fd, cells }, true)
    const carried = new Map<number, { cell: number; seen: [bigint, bigint] }>()
    const slots = new Map<number, number>()
    const two = (arena: Arena, cell: number): [bigint, bigint] => {
      const [first = 0n, second = 0n] = arena.longs(cell)
      return [first, second]
    }
    /** The new place of a cell that rules refer to. */
    const carry = (at: number): number => {
      const known = carried.get(at)
      if (known) return known.cell
      const cell = next.takeCell()
      next.cell(cell).set(old.cell(at))
      carried.set(at, { cell, seen: two(next, cell) })
      return cell
    }
    const moved = (image: Image): Image => {
      const copy = image.slice()
      copy[FROM] = 0
      copy[HITS] = carry(word(image, HITS))
      if (word(image, WINDOW) !== 0) copy[WINDOW] = carry(word(image, WINDOW))
      return copy
    }
    await inSlices(old.runs(), ({ slot, hash }) => {
      const standing = [...old.rules(slot)].filter((rule) => word(rule, UNTIL) === 0)
      if (standing.length > 0) slots.set(slot, next.insert(hash, standing.map(moved)).slot)
    })
    const standing = new Map<number, Standing>()
    await inSlices(family.standing, ([id, { hits, places }]) => {
      const there = places.map(({ slot, table }) => ({ slot: slots.get(slot) ?? 0, table }))
      standing.set(id, { hits: carry(hits), places: there })
    })
    await outer.swap(0, map.fd)
    // What was counted while the rules were copied.
    await inSlices(carried, ([at, { cell, seen }]) => {
      const now = two(old, at)
      for (const i of [0, 1] as const) Atomics.add(next.longs(cell), i, now[i] - seen[i])
    })
    family.standing = standing
    family.arena = next
  } finally {
    map.close()
  }
  old.close()
}

/**
 * Takes over what stands in an arena: which cells are in use, who counts where. What an agent had prepared and not put in
 * force, and what had ended, is left for the next sweep. The caller waits a grace period before.
 */
export async function adopt(classifier: Classifier, family: FilterFamily): Promise<void> {
  const { arena } = family
  const { generation } = classifier.settings
  const lines: number[] = []
  const single = new Set<number>()
  const slots: number[] = []
  await inSlices(arena.runs(lines), ({ slot, hash }) => {
    arena.room.claim(...arena.runAt(slot))
    for (const rule of arena.rules(slot)) {
      const [from, until] = [word(rule, FROM), word(rule, UNTIL)]
      const isComing = from !== 0 && ((generation - from) | 0) < 0
      if (isComing) rule[UNTIL] = generation
      // Nobody lives in an earlier generation any longer.
      else rule[FROM] = 0
      if (!isComing && until !== 0 && ((generation - until) | 0) < 0) rule[UNTIL] = 0
      if (word(rule, UNTIL) !== 0) {
        slots.push(slot)
        continue
      }
      // It stands in several runs in parts, or while it moves.
      const known = family.standing.get(idOf(rule))
      const { places } = known ?? take(rule)
      if (places.every((place) => place.slot !== slot)) family.adopt(places, rule, slot, hash)
    }
  })
  for (const cell of single) arena.room.claim(cell, 1)
  for (const cell of lines) arena.room.claim(cell, 1)
  arena.room.settle()
  if (slots.length > 0) classifier.leave({ ...noRemains(family, generation), slots })

  /** A rule that is met for the first time. */
  function take(rule: Image): Standing {
    const standing: Standing = { hits: word(rule, HITS), places: [] }
    single.add(standing.hits)
    if (word(rule, WINDOW) !== 0) single.add(word(rule, WINDOW))
    family.standing.set(idOf(rule), standing)
    classifier.count(rule)
    if (deviceOf(rule) !== 0) classifier.devices.adopt(deviceOf(rule))
    return standing
  }
}
