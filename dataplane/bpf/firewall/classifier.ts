/**
 * The rules of both families in the memory that packets are judged by. A change is prepared beside what is in force, and
 * then becomes so at one instant; what it left behind is used again after a grace period.
 */
import { atOnce, inSlices, type Steps, stepwise } from '../../slices.ts'
import type { Arena } from './arena.ts'
import type { DeviceNames } from './devices.ts'
import type { FilterRule, FilterWindow } from './entries.ts'
import type { FilterFamily, Laid, Place, Standing, Traces } from './family.ts'
import {
  deviceOf,
  type Family,
  FROM,
  familiesOf,
  HITS,
  hasMac,
  type Image,
  idOf,
  imageOf,
  isFresh,
  UNTIL,
  WINDOW,
  word,
} from './image.ts'
import { following, type Settings } from './settings.ts'

/** A rule that comes, goes, or takes the place of another. */
export interface FilterChange {
  before?: FilterRule
  after?: FilterRule
}

/** What is to be done for a family once no packet can meet what a change has ended. */
export interface Remains extends Traces {
  family: FilterFamily
  /** To which slots, blocks and cells belong: with a larger one in its place they are of no concern. */
  arena: Arena
  generation: number
  /** Cells of hits and windows. */
  cells: number[]
  /** Images that are gone, of those that `count` counts. */
  gone: Image[]
}

/** Up to so many changes are prepared in one go. */
const FEW = 64

export class Classifier {
  readonly families: readonly FilterFamily[]
  readonly devices: DeviceNames
  readonly settings: Settings
  /** Filled by changes, emptied by whoever waits for grace periods: one for each arena. */
  #remains: Remains[] = []
  #fresh = 0
  #macs = 0

  constructor(families: readonly FilterFamily[], devices: DeviceNames, settings: Settings) {
    this.families = families
    this.devices = devices
    this.settings = settings
  }

  /**
   * Puts all changes in force at one instant, or none. Of many the preparing is done in slices; nothing else may be
   * changed meanwhile. @throws NoRoom
   */
  async apply(changes: readonly FilterChange[]): Promise<void> {
    const generation = following(this.settings.generation)
    const work = this.families.map(
      (family): Work => ({ remains: noRemains(family, generation), laid: new Map(), ended: [], begun: [] }),
    )
    const isLong = changes.length > FEW
    try {
      const steps = this.#prepare(changes, work)
      if (isLong) await stepwise(steps)
      else atOnce(steps)
    } catch (error) {
      await this.#withdraw(work)
      throw error
    }
    // What ended is counted until the sweep: packets of the generation before still ask for it.
    this.announce()
    this.settings.generation = generation
    const steps = settle(work)
    if (isLong) await stepwise(steps)
    else atOnce(steps)
    for (const { remains } of work) this.leave(remains)
  }

  /** Something is to be done for a family after a grace period. */
  leave(it: Remains): void {
    const known = this.#remains.find(({ arena }) => arena === it.arena)
    if (known === undefined) {
      this.#remains.push(it)
      return
    }
    // A sweep leaves more of what was before a later change.
    if (((it.generation - known.generation) | 0) > 0) known.generation = it.generation
    append(known.slots, it.slots)
    append(known.freed, it.freed)
    append(known.cells, it.cells)
    append(known.gone, it.gone)
  }

  /** Whether something is to be done after a grace period. */
  get isBehind(): boolean {
    return this.#remains.length > 0
  }

  /** What is to be done after the next grace period; it is the caller's from then on. */
  take(): Remains[] {
    const taken = this.#remains.filter(({ slots, freed, cells, gone }) =>
      [slots, freed, cells, gone].some(({ length }) => length > 0),
    )
    this.#remains = []
    return taken
  }

  /** What is there already counts too: for the adoption of what an earlier agent made. */
  count(image: Image): void {
    if (isFresh(image)) this.#fresh++
    if (hasMac(image)) this.#macs++
  }

  /** These images are gone, and no packet meets them any longer. */
  uncount(images: readonly Image[]): void {
    for (const image of images) {
      if (isFresh(image)) this.#fresh--
      if (hasMac(image)) this.#macs--
      if (deviceOf(image) !== 0) this.devices.release(deviceOf(image))
    }
  }

  /** Tells the programs what some rule asks for. */
  announce(): void {
    this.settings.counts(this.#fresh, this.#macs, this.devices.users)
  }

  *#prepare(changes: readonly FilterChange[], work: readonly Work[]): Steps<void> {
    for (const change of changes) {
      for (const it of work) this.#change(change, it)
      yield
    }
    for (const { remains, laid } of work) {
      for (const [hash, filings] of laid) {
        remains.family.file(hash, filings, remains)
        yield
      }
    }
  }

  #change({ before, after }: FilterChange, work: Work): void {
    const { remains } = work
    const { family } = remains.family
    const old = before && this.#end(before.id, work)
    const begins = after !== undefined && isOf(family, after)
    // The same rule goes on counting.
    const keeps = old !== undefined && begins && before?.id === after.id
    if (old !== undefined && !keeps) remains.cells.push(old.hits)
    if (begins) this.#begin(after, work, keeps ? old.hits : 0)
  }

  /** Marks the end of a rule wherever it stands. */
  #end(id: number, { remains, ended }: Work): Standing | undefined {
    const { family, generation } = remains
    const standing = family.standing.get(id)
    if (standing === undefined) return undefined
    let cell: number | undefined
    for (const { slot } of standing.places) {
      cell = family.arena.end(slot, id, generation) ?? cell
      remains.slots.push(slot)
    }
    ended.push({ id, standing })
    if (cell !== undefined) {
      const image = family.arena.cell(cell)
      if (isCounted(image)) remains.gone.push(image.slice())
      if (word(image, WINDOW) !== 0) remains.cells.push(word(image, WINDOW))
    }
    return standing
  }

  /** Lays out a rule that holds from a generation on. `hits`: the cell in which it counts, 0 for a new one. */
  #begin(rule: FilterRule, { remains, laid, begun }: Work, hits: number): void {
    const { family, generation } = remains
    const { interface: device } = rule.match
    const image = imageOf(rule, family.family, device === undefined ? 0 : this.devices.use(device))
    const places: Place[] = []
    const standing = { hits, places }
    image[FROM] = generation
    begun.push({ image, standing, ownHits: hits === 0 })
    this.count(image)
    if (rule.window !== undefined) image[WINDOW] = this.#window(rule.window, family)
    standing.hits = image[HITS] = hits || family.arena.takeCell()
    family.place(image, places, laid)
  }

  #window({ from, to, daily }: FilterWindow, family: FilterFamily): number {
    const cell = family.arena.takeCell()
    const longs = family.arena.longs(cell)
    longs[0] = BigInt(from)
    longs[1] = BigInt(to)
    longs[2] = daily ? 1n : 0n
    return cell
  }

  /**
   * Sees to it that what was filed holds in no generation, and what was ended in all. Takes no room: there may be none. The
   * generation is used up by that: the next change must not be taken for this one.
   */
  async #withdraw(work: readonly Work[]): Promise<void> {
    for (const { remains, begun } of work) {
      const { family, slots, generation } = remains
      for (const { standing } of begun) family.release(standing.places)
      await inSlices(new Set(slots), (slot) => {
        // Runs have gone to other places meanwhile, and with them the marks.
        for (const rule of family.arena.rules(slot)) {
          if (word(rule, FROM) === generation) rule[UNTIL] = generation
          else if (word(rule, UNTIL) === generation) rule[UNTIL] = 0
        }
      })
    }
    this.settings.generation = following(this.settings.generation)
    for (const { remains, begun } of work) {
      const cells = begun.flatMap(({ image, ownHits }) => [word(image, WINDOW), ownHits ? word(image, HITS) : 0])
      const gone = begun.map(({ image }) => image).filter(isCounted)
      this.leave({ ...remains, gone, cells: cells.filter((cell) => cell !== 0) })
    }
  }
}

/** What a change is to a family. */
interface Work {
  remains: Remains
  laid: Laid
  ended: Ended[]
  begun: Begun[]
}

interface Ended {
  id: number
  standing: Standing
}

interface Begun {
  image: Image
  standing: Standing
  /** Its cell of hits was taken for it. */
  ownHits: boolean
}

/** The families know which rules are in force now. */
function* settle(work: readonly Work[]): Steps<void> {
  for (const { remains, ended, begun } of work) {
    const { family } = remains
    for (const { id, standing } of ended) {
      family.release(standing.places)
      family.standing.delete(id)
      yield
    }
    for (const { image, standing } of begun) {
      family.standing.set(idOf(image), standing)
      yield
    }
  }
}

/** Whether a rule asks for something of which all packets must be asked. */
const isCounted = (image: Image): boolean => isFresh(image) || hasMac(image) || deviceOf(image) !== 0

/** Of any length, for which `push(...more)` would be too much. */
function append<T>(list: T[], more: readonly T[]): void {
  for (const it of more) list.push(it)
}

const isOf = (family: Family, { match }: FilterRule): boolean => familiesOf(match).includes(family)

export const noRemains = (family: FilterFamily, generation: number): Remains => ({
  family,
  arena: family.arena,
  generation,
  slots: [],
  freed: [],
  cells: [],
  gone: [],
})
