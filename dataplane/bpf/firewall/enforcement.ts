/** One thing at a time is done to the classifier: changes, upkeep, plans. */
import { inSlices } from '../../slices.ts'
import type { BpfMap } from '../map.ts'
import type { Classifier } from './classifier.ts'
import type { Enforcement } from './driver.ts'
import type { FilterRule } from './entries.ts'
import type { FilterFamily } from './family.ts'
import { deviceOf, familiesOf, type Image, idOf, ruleOf, UNTIL, WINDOW, word } from './image.ts'
import { type Planning, planning } from './planning.ts'
import { NoRoom } from './room.ts'
import { type Sweeping, sweeping } from './sweeping.ts'
import { cellsFor, grow } from './upkeep.ts'

export interface Parts {
  classifier: Classifier
  /** The map that packets find a family's arena in. */
  outerOf(family: FilterFamily): BpfMap<number, number>
  /** Resolves when every packet that was being judged has been. */
  grace(): Promise<void>
  /** Attaches the programs again if somebody has taken them off; true then. */
  mend(): Promise<boolean>
  /** The same before every change, for what costs next to nothing to see. */
  hold?(): Promise<boolean>
  /** The maps of other layouts are not needed any longer. */
  settled(): void
  /** How long rules must not have changed before they move to other tables; default: that of planning. */
  quietMs?: number
  onProblem(error: unknown): void
  close(): void
}

/** The area whose rules these are; the kernel does not tell the whole key. */
const AREA = 'firewall'
/** Changes that wait for room twice within so long get an arena this many times as large as their rules need. */
const OFTEN_MS = 1000
const SPARE = 16
const DEFAULT_KEY = `${AREA}/filter_default`

export function enforcement(parts: Parts): Enforcement {
  const { classifier, outerOf, grace, onProblem } = parts
  let last: Promise<unknown> = Promise.resolve()
  let observations = 0
  /** When a change last waited for a grace period, as there was no room without. */
  let waited = Number.NEGATIVE_INFINITY
  let isChanged = false
  /** Programs were put back that somebody had taken off, and the next observation is to tell. */
  let isTakenOff = false
  let closed = false

  /** Of memory that is not mapped any longer nothing is read: that would end the agent. */
  function requireOpen(): void {
    if (closed) throw new Error('the classifier is closed')
  }

  /** Whoever comes later waits for what is going on. */
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = last.then(work, work)
    last = turn.catch(() => {})
    return turn
  }

  /** Does `work` again with more memory for as long as there is not enough. */
  async function growing(work: () => Promise<void>): Promise<void> {
    for (;;) {
      try {
        return await work()
      } catch (error) {
        const short = familyShort(error)
        if (short === undefined) throw error
        await enlarge(short)
      }
    }
  }

  async function enlarge(family: FilterFamily, cells?: number): Promise<void> {
    // What has ended stays behind, and what has begun is in force: also for packets that are being judged.
    await grace()
    await grow(family, outerOf(family), cells)
  }

  /** The family for which a larger arena would help. */
  const familyShort = (error: unknown) =>
    error instanceof NoRoom ? classifier.families.find(({ family }) => family === error.family) : undefined

  const sweeps: Sweeping = sweeping({ classifier, inTurn, grace, growing, onProblem })

  /** As `growing`, but what is about to be free anyway is waited for first, unless that happens all the time. */
  async function withRoom(work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      const short = familyShort(error)
      if (short === undefined) throw error
      const isOften = performance.now() - waited < OFTEN_MS
      const isLarge = short.arena.cells >= SPARE * cellsFor(short.standing.size)
      if (sweeps.isBehind() && (isLarge || !isOften)) {
        waited = performance.now()
        await sweeps.catchUp()
      }
      await growing(work)
    }
  }

  const plans: Planning = planning({
    classifier,
    inTurn,
    grace,
    withRoom,
    async makeRoom(family, rules) {
      const cells = cellsFor(rules)
      if (cells > family.arena.cells) await enlarge(family, cells)
    },
    left: sweeps.begin,
    onProblem,
    ...(parts.quietMs !== undefined && { quietMs: parts.quietMs }),
  })

  /** Before rules and default are those of the area, what another layout judges by is needed. */
  function settle(): void {
    if (classifier.settings.decided !== undefined && (isChanged || observations > 1)) parts.settled()
  }
  // An agent that was killed may have left something.
  sweeps.begin()

  return {
    async change(changes) {
      requireOpen()
      try {
        await inTurn(async () => {
          await plans.prepare(changes)
          await withRoom(() => classifier.apply(changes))
        })
      } finally {
        sweeps.begin()
      }
      plans.review()
      isChanged = true
      settle()
    },

    setDefault(action) {
      requireOpen()
      classifier.settings.setDefault(action)
      settle()
    },

    async rules() {
      requireOpen()
      classifier.settings.setClock()
      // Programs that somebody took off are told of as a default that was not in force.
      if ((await parts.mend()) || isTakenOff) classifier.settings.forgetDefault()
      isTakenOff = false
      observations++
      settle()
      return inTurn(() => standing(classifier))
    },

    async hold() {
      requireOpen()
      // Rules and a default that are answered for must be judged by.
      await inTurn(async () => {
        if (await parts.hold?.()) isTakenOff = true
      })
    },

    default() {
      requireOpen()
      const action = classifier.settings.decided
      return action && { kind: 'filter_default', key: DEFAULT_KEY, ...action }
    },

    async close() {
      closed = true
      await plans.close()
      await sweeps.close()
      await last
      parts.close()
    },
  }
}

/** The rules that are in force, one entry each. One that a family lacks is marked as damaged. */
async function standing(classifier: Classifier): Promise<FilterRule[]> {
  const found = new Map<number, { rule: FilterRule; families: Set<number> }>()
  for (const family of classifier.families) {
    await inSlices(family.arena.runs(), ({ slot }) => {
      for (const image of family.arena.rules(slot)) {
        if (word(image, UNTIL) !== 0) continue
        const id = idOf(image)
        const known = found.get(id) ?? { rule: decode(classifier, family, image), families: new Set() }
        known.families.add(family.family)
        found.set(id, known)
      }
    })
  }
  const rules: FilterRule[] = []
  await inSlices(found.values(), ({ rule, families }) => {
    const isWhole = familiesOf(rule.match).every((it) => families.has(it))
    rules.push(isWhole ? rule : { ...rule, damaged: true })
  })
  return rules
}

function decode({ devices }: Classifier, { family, arena }: FilterFamily, image: Image): FilterRule {
  const [from = 0n, to = 0n, daily = 0n] = arena.longs(word(image, WINDOW))
  const window = { from: Number(from), to: Number(to), daily: daily !== 0n }
  const device = deviceOf(image) === 0 ? undefined : devices.name(deviceOf(image))
  return ruleOf(image, family, `${AREA}/filter/${idOf(image)}`, device, word(image, WINDOW) === 0 ? undefined : window)
}
