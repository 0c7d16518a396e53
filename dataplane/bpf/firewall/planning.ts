/**
 * Which tables there should be, decided anew when the rules have outgrown those there are. Rules move to the new tables
 * while packets are judged: each is filed in its new place, and taken from its old one after a grace period.
 */
import { inSlices } from '../../slices.ts'
import { type Classifier, type FilterChange, noRemains, type Remains } from './classifier.ts'
import type { FilterFamily, Laid } from './family.ts'
import { cellWords, familiesOf, type Image, idOf, imageOf, UNTIL, word } from './image.ts'
import type { Mask } from './mask.ts'
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
/** Rules that are moved before others may change some. */
const CHUNK = 512

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
      return [family, isPlanned ? { tables, rules: family.hits.size } : { tables: 1, rules: 0 }]
    }),
  )
  let timer: NodeJS.Timeout | undefined
  /** Since when a plan is due; 0 while none is. */
  let dueSince = 0
  let moving: Promise<void> | undefined
  let closed = false

  const overdue = (family: FilterFamily): boolean => {
    const { tables, rules } = planned.get(family) ?? { tables: 1, rules: 0 }
    const [now, left] = [family.tables.all().length, family.hits.size]
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
    const images = await inTurn(() => standing(family))
    const masks = await planFor({ images: joined(images, family), family: family.family }, images.length)
    await inTurn(async () => {
      // A plan for rules that are gone would be worse than none.
      const changed = Math.abs(family.hits.size - images.length)
      if (!closed && changed <= images.length / 4) open(family, masks, images.length)
    })
    await move(family)
  }

  /** Empties the tables that are to go. A change may want one of them again meanwhile: then it stays. */
  async function move(family: FilterFamily): Promise<void> {
    const chosen = family.tables.all().filter((table) => table.leaving)
    const returns = new Map(chosen.map((table) => [table, table.returns]))
    // What stayed and is to go again holds rules that nobody has copied.
    const leaving = () => chosen.filter((table) => table.leaving && table.returns === returns.get(table))
    if (chosen.length === 0) return
    const stoodTwice = family.mayStandTwice
    family.mayStandTwice = true
    await eachRun(family, (slot, hash) => {
      for (const image of [...family.arena.rules(slot)]) {
        if (word(image, UNTIL) === 0 && family.isIn(leaving(), image, hash)) copy(family, image.slice())
      }
    })
    if (closed) return
    await grace()
    await eachRun(family, (slot, hash) => {
      // Whatever happened meanwhile: what packets would not find elsewhere stays where it is.
      const goes = (image: Image) =>
        family.isIn(leaving(), image, hash) && (word(image, UNTIL) !== 0 || family.staysIn(image))
      const freed = family.arena.filter(slot, (image) => !goes(image))
      if (freed) remember(family, { slots: [], freed: [freed] })
    })
    const isWhole = await staysWhole(family)
    // What is half done the next agent finds standing twice, which does no harm.
    if (closed) return
    if (!isWhole) for (const { mask } of leaving()) family.tables.take(mask)
    const left = leaving()
    for (const table of left) family.tables.close(table)
    family.mayStandTwice = stoodTwice || left.length < chosen.length
    await grace()
    for (const table of left) family.tables.forget(table)
  }

  /** Whether packets find every rule in tables that stay. */
  async function staysWhole(family: FilterFamily): Promise<boolean> {
    const found = new Set<number>()
    await eachRun(family, (slot) => {
      for (const image of family.arena.rules(slot)) {
        if (word(image, UNTIL) === 0 && !found.has(idOf(image)) && family.staysIn(image)) found.add(idOf(image))
      }
    })
    return inTurn(async () => [...family.hits.keys()].every((id) => found.has(id)))
  }

  function copy(family: FilterFamily, image: Image): void {
    if (family.staysIn(image)) return
    const traces: Pick<Remains, 'slots' | 'freed'> = { slots: [], freed: [] }
    try {
      const laid: Laid = new Map()
      family.place(image, laid)
      // Where a rule stands in part already, it would stand twice.
      for (const [hash, rules] of laid) if (!family.standsUnder(hash, image)) family.file(hash, rules, traces)
    } finally {
      remember(family, traces)
    }
  }

  function remember(family: FilterFamily, traces: Pick<Remains, 'slots' | 'freed'>): void {
    classifier.leave({ ...noRemains(family, classifier.settings.generation), ...traces })
    left()
  }

  /** Calls `work` for every run, and lets changes pass in between. Begins anew when the rules have got a new arena. */
  async function eachRun(family: FilterFamily, work: (slot: number, hash: number) => void): Promise<void> {
    for (let done = false; !done && !closed; ) {
      const { arena } = family
      const runs = arena.runs()
      // One for which room lacked is tried again.
      let next: IteratorResult<{ slot: number; hash: number }> | undefined
      for (let more = true; more && !closed; ) {
        more = await inTurn(async () => {
          if (family.arena !== arena) return false
          let ended = false
          await withRoom(async () => {
            await inSlices(Array.from({ length: CHUNK }), () => {
              if (ended || family.arena !== arena) return
              next ??= runs.next()
              if (next.done) ended = true
              else work(next.value.slot, next.value.hash)
              next = undefined
            })
          })
          done = ended
          return !ended
        })
      }
    }
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
          await move(family)
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
      const added = changes.flatMap(({ after }) => (after ? [after] : []))
      if (added.length < MANY) return
      for (const family of classifier.families) {
        const own = added.filter(({ match }) => familiesOf(match).includes(family.family))
        if (own.length < MANY) continue
        await makeRoom(family, family.hits.size + own.length)
        if (own.length < family.hits.size) continue
        const all = await standing(family)
        await inSlices(own, (rule) => {
          all.push(imageOf(rule, family.family, rule.match.interface === undefined ? 0 : 1))
        })
        open(family, await planFor({ images: joined(all, family), family: family.family }, all.length), all.length)
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

/** Words of every rule that is in force, each once. */
async function standing(family: FilterFamily): Promise<Image[]> {
  const found = new Map<string, Image>()
  await inSlices(family.arena.runs(), ({ slot }) => {
    for (const image of family.arena.rules(slot)) {
      if (word(image, UNTIL) === 0) found.set(`${image[0]} ${image[1]}`, image.slice())
    }
  })
  return [...found.values()]
}

function joined(images: readonly Image[], { family }: FilterFamily): Uint32Array {
  const size = cellWords(family)
  const out = new Uint32Array(images.length * size)
  for (const [at, image] of images.entries()) out.set(image, at * size)
  return out
}
