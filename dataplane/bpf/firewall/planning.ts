/**
 * Which tables there should be, decided anew when the rules have outgrown those there are.
 */
import { inSlices } from '../../slices.ts'
import { type Classifier, type FilterChange, noRemains } from './classifier.ts'
import type { FilterRule } from './entries.ts'
import type { FilterFamily } from './family.ts'
import { cellWords, familiesOf, type Image, imageOf } from './image.ts'
import type { Mask } from './mask.ts'
import { type MovingParts, move } from './moving.ts'
import { MOST_TABLES } from './plan.ts'
import { planFor } from './plan-thread.ts'
import type { Table } from './table-set.ts'

/** From so many new rules on, tables are made for them first. */
const MANY = 256
/** Tables beyond those of the last plan with which a new one is made. */
const MORE_TABLES = 4
/** A plan waits until rules have not changed for so long, but no longer than that. */
const QUIET_MS = 200
const PATIENCE_MS = 2000

export interface Planning {
  /** Before changes are made, and in their turn: makes tables for many new rules. */
  prepare(changes: readonly FilterChange[]): Promise<void>
  /** After changes: begins a new plan when there should be one. */
  review(): void
  close(): Promise<void>
}

export interface PlanningParts {
  classifier: Classifier
  inTurn<T>(work: () => Promise<T>): Promise<T>
  grace(): Promise<void>
  withRoom(work: () => Promise<void>): Promise<void>
  /** Makes a family's arena large enough for so many rules. In the turn of a change. */
  makeRoom(family: FilterFamily, rules: number): Promise<void>
  /** Something was left behind. */
  left(): void
  onProblem(error: unknown): void
  /** Default: QUIET_MS. */
  quietMs?: number
}

export function planning(parts: PlanningParts): Planning {
  const { classifier, inTurn, grace, withRoom, makeRoom, left, onProblem, quietMs = QUIET_MS } = parts
  /** Number of tables and rules after the last plan; tables that an earlier agent planned are taken for that. */
  const planned = new Map(
    classifier.families.map((family) => {
      const tables = family.tables.all().length
      const isPlanned = tables > 0 && tables <= MOST_TABLES
      return [family, isPlanned ? { tables, rules: family.standing.size } : { tables: 1, rules: 0 }]
    }),
  )
  let timer: NodeJS.Timeout | undefined
  /** Since when a plan is due; 0 while none is. */
  let dueSince = 0
  let moving: Promise<void> | undefined
  let closed = false
  const moves: MovingParts = {
    inTurn,
    grace,
    withRoom,
    remember(family, traces) {
      classifier.leave({ ...noRemains(family, classifier.settings.generation), ...traces })
      left()
    },
    isClosed: () => closed,
  }

  const overdue = (family: FilterFamily): boolean => {
    const { tables, rules } = planned.get(family) ?? { tables: 1, rules: 0 }
    const [now, left] = [family.tables.all().length, family.standing.size]
    const isOutgrown = now > tables + MORE_TABLES && Math.abs(left - rules) > Math.max(MORE_TABLES, rules / 4)
    return isOutgrown || (now > 1 && left < rules / 4)
  }

  function open(family: FilterFamily, masks: readonly Mask[], rules: number): void {
    const wanted = new Set<Table>()
    for (const mask of masks) if (family.tables.hasRoom(1)) wanted.add(family.tables.take(mask))
    for (const table of family.tables.all()) table.leaving = !wanted.has(table)
    planned.set(family, { tables: wanted.size, rules })
  }

  async function replan(family: FilterFamily): Promise<void> {
    const { images, count } = await standing(family, [])
    const masks = await planFor({ images, family: family.family }, count)
    await inTurn(async () => {
      // A plan for rules that are gone would be worse than none.
      const changed = Math.abs(family.standing.size - count)
      if (!closed && changed <= count / 4) open(family, masks, count)
    })
    await move(family, moves)
  }

  function review(): void {
    clearTimeout(timer)
    const isDue = classifier.families.some((it) => overdue(it) || it.tables.all().some(({ leaving }) => leaving))
    if (!isDue || closed) return
    const now = performance.now()
    dueSince ||= now
    timer = setTimeout(begin, Math.max(0, Math.min(quietMs, dueSince + PATIENCE_MS - now)))
    timer.unref()
  }

  function begin(): void {
    // Whoever is moving looks again afterwards.
    if (moving !== undefined) return
    dueSince = 0
    moving = (async () => {
      try {
        for (const family of classifier.families) {
          // What an earlier plan has left first: its tables' numbers are needed.
          await move(family, moves)
          if (overdue(family) && !closed) await replan(family)
        }
      } catch (error) {
        onProblem(error)
        return
      } finally {
        moving = undefined
      }
      review()
    })()
  }

  return {
    async prepare(changes) {
      if (changes.length < MANY) return
      for (const family of classifier.families) {
        const own: FilterRule[] = []
        await inSlices(changes, ({ after }) => {
          if (after && familiesOf(after.match).includes(family.family)) own.push(after)
        })
        if (own.length < MANY) continue
        await makeRoom(family, family.standing.size + own.length)
        if (own.length < family.standing.size) continue
        const { images, count } = await standing(family, own)
        open(family, await planFor({ images, family: family.family }, count), count)
      }
    },

    review,

    async close() {
      closed = true
      clearTimeout(timer)
      await moving
    },
  }
}

/** Words of every rule that is in force, each once, and of some more. Changes may pass meanwhile. */
async function standing(
  family: FilterFamily,
  more: readonly FilterRule[],
): Promise<{ images: Uint32Array; count: number }> {
  const size = cellWords(family.family)
  const images = new Uint32Array((family.standing.size + more.length) * size)
  let count = 0
  const add = (image: Image | undefined) => {
    if (image && count * size < images.length) images.set(image, size * count++)
  }
  await inSlices(more, (rule) => add(imageOf(rule, family.family, rule.match.interface === undefined ? 0 : 1)))
  await inSlices([...family.standing.keys()], (id) => {
    const known = family.standing.get(id)
    add(known && family.imageOf(id, known))
  })
  return { images: images.subarray(0, count * size), count }
}
