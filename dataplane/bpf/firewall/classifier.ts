/**
 * The rules of both families in the memory that packets are judged by. A change is prepared beside what is in force, and
 * then becomes so at one instant; what it left behind is used again after a grace period.
 */
import { inSlices } from '../../slices.ts'
import type { Arena } from './arena.ts'
import type { DeviceNames } from './devices.ts'
import type { FilterRule, FilterWindow } from './entries.ts'
import { type FilterFamily, isStanding, type Laid, type Traces } from './family.ts'
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
  /** Images that are gone. */
  gone: Image[]
}

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
    const work = this.families.map((family): Work => ({ remains: noRemains(family, generation), laid: new Map() }))
    const remains = work.map((it) => it.remains)
    const begun: Begun[] = []
    try {
      await inSlices(changes, (change) => this.#prepare(change, work, begun))
      for (const { remains: it, laid } of work) {
        await inSlices(laid, ([hash, rules]) => it.family.file(hash, rules, it))
      }
    } catch (error) {
      await this.#withdraw(begun, remains)
      throw error
    }
    // What ended is counted until the sweep: packets of the generation before still ask for it.
    this.announce()
    this.settings.generation = generation
    for (const { family, image } of begun) family.hits.set(idOf(image), word(image, HITS))
    for (const it of remains) this.leave(it)
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

  #prepare({ before, after }: FilterChange, work: readonly Work[], begun: Begun[]): void {
    for (const { remains, laid } of work) {
      const { family } = remains.family
      const old = before && isOf(family, before) ? this.#end(before, remains) : undefined
      // The same rule goes on counting.
      const keeps = old !== undefined && after !== undefined && before?.id === after.id && isOf(family, after)
      if (old !== undefined && !keeps) remains.cells.push(word(old, HITS))
      if (after !== undefined && isOf(family, after)) {
        const begin = this.#begin(after, remains, keeps ? word(old, HITS) : 0, begun)
        remains.family.place(begin, laid)
      }
    }
  }

  /** Marks the end of a rule wherever it stands. Returns its words. */
  #end(rule: FilterRule, remains: Remains): Image | undefined {
    const { family } = remains
    const device = rule.match.interface === undefined ? 0 : this.devices.number(rule.match.interface)
    const image = imageOf(rule, family.family, device)
    let found: Image | undefined
    for (const slot of family.slotsOf(image)) {
      for (const rule of family.arena.rules(slot)) {
        if (!isStanding(rule, image)) continue
        found ??= rule.slice()
        rule[UNTIL] = remains.generation
      }
      remains.slots.push(slot)
    }
    if (found === undefined) return undefined
    family.hits.delete(rule.id)
    remains.gone.push(found)
    if (word(found, WINDOW) !== 0) remains.cells.push(word(found, WINDOW))
    return found
  }

  /** The words of a rule that holds from a generation on. `hits`: the cell in which it counts, 0 for a new one. */
  #begin(rule: FilterRule, { family, generation }: Remains, hits: number, begun: Begun[]): Image {
    const { interface: device } = rule.match
    const image = imageOf(rule, family.family, device === undefined ? 0 : this.devices.use(device))
    image[FROM] = generation
    begun.push({ family, image, ownHits: hits === 0 })
    this.count(image)
    if (rule.window !== undefined) image[WINDOW] = this.#window(rule.window, family)
    image[HITS] = hits || family.arena.takeCell()
    return image
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
  async #withdraw(begun: readonly Begun[], remains: readonly Remains[]): Promise<void> {
    for (const { family, slots, gone, generation } of remains) {
      for (const image of gone) family.hits.set(idOf(image), word(image, HITS))
      await inSlices(new Set(slots), (slot) => {
        // Runs have gone to other places meanwhile, and with them the marks.
        for (const rule of family.arena.rules(slot)) {
          if (word(rule, FROM) === generation) rule[UNTIL] = generation
          else if (word(rule, UNTIL) === generation) rule[UNTIL] = 0
        }
      })
    }
    this.settings.generation = following(this.settings.generation)
    for (const it of remains) {
      const mine = begun.filter(({ family }) => family === it.family)
      const cells = mine.flatMap(({ image, ownHits }) => [word(image, WINDOW), ownHits ? word(image, HITS) : 0])
      const gone = mine.map(({ image }) => image)
      this.leave({ ...it, gone, cells: cells.filter((cell) => cell !== 0) })
    }
  }
}

/** What a change is to a family. */
interface Work {
  remains: Remains
  laid: Laid
}

interface Begun {
  family: FilterFamily
  image: Image
  /** Its cell of hits was taken for it. */
  ownHits: boolean
}

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
