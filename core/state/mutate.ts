/**
 * The pipeline of a mutation, one at a time: rule in an open transaction → difference of the touched entries → kernel →
 * outbox → COMMIT. A failure at any step takes back what was done, and nothing of it remains (promise 1).
 */
import type { FastifyBaseLogger } from 'fastify'
import { compare, type Entry, type Passage, type Undo } from '../../dataplane/entry.ts'
import { GroundLost, KernelRefusal, type Plane, UncertainOutcome } from '../../dataplane/plane.ts'
import type { Change, LoadedArea, Mutation, Ref, Rule } from '../area.ts'
import { desiredOn } from '../areas.ts'
import type { Config } from '../config.ts'
import { conflict } from '../errors.ts'
import type { PipelineCounts } from '../observe/pipeline.ts'
import { inSlices, stepwise } from '../slices.ts'
import { openTenancy } from '../tenancy.ts'
import type { Origin, Outbox } from './events.ts'
import type { Store } from './store.ts'

export interface PipelineParts {
  store: Store
  plane: Plane
  config: Config
  outbox: Outbox
  /** Enabled areas by name. */
  areas: ReadonlyMap<string, LoadedArea>
  log: FastifyBaseLogger
  counts: PipelineCounts
  /**
   * Brings the kernel to what is committed: when it refused a change, which it may have done because somebody else
   * `meddled`; when an undo failed or an outcome is unknown. Resolves to true when something had to be done for that.
   */
  repair(meddled: boolean): Promise<boolean>
  /** Rejects while it is not known what the kernel holds: nothing is built on that. */
  ground(area: string): Promise<void>
}

export interface Pipeline {
  mutate<T>(area: string, origin: Origin, rule: Rule<T>): Promise<Mutation<T>>
  /** Runs `work` while no mutation runs. */
  exclusively<T>(work: () => Promise<T>): Promise<T>
  /** How many of either run or wait. */
  depth(): number
}

export function openPipeline(parts: PipelineParts): Pipeline {
  const { areas, counts, store } = parts
  openTenancy(store, [...areas.values()])
  let tail: Promise<unknown> = Promise.resolve()
  let depth = 0

  function exclusively<T>(work: () => Promise<T>): Promise<T> {
    depth++
    const run = tail.then(work).finally(() => void depth--)
    tail = run.catch(() => {})
    return run
  }

  return {
    exclusively,
    depth: () => depth,
    async mutate(area, origin, rule) {
      const since = performance.now()
      const { change, eventId } = await exclusively(() => {
        counts.took('wait', since)
        return carryOutOnGround(parts, area, origin, rule)
      }).catch((error: unknown) => {
        counts.undone(area, error)
        throw error
      })
      counts.done(area)
      parts.outbox.wake()
      return { result: change.result, ...(eventId !== undefined && { eventId }) }
    },
  }
}

interface Done<T> {
  change: Change<T>
  eventId: number | undefined
}

/**
 * A change that the kernel refuses may have been built on what somebody else has taken away meanwhile. Then the kernel
 * is made good and the change tried once more; otherwise the refusal stands (D69).
 */
async function carryOutOnGround<T>(
  parts: PipelineParts,
  area: string,
  origin: Origin,
  rule: Rule<T>,
): Promise<Done<T>> {
  try {
    return await carryOut(parts, area, origin, rule)
  } catch (error) {
    if (!(error instanceof KernelRefusal)) throw error
    if (!(await parts.repair(!(error instanceof GroundLost)))) throw refusal(error)
    return carryOut(parts, area, origin, rule).catch((again: unknown) => {
      throw refusal(again)
    })
  }
}

async function carryOut<T>(parts: PipelineParts, area: string, origin: Origin, rule: Rule<T>): Promise<Done<T>> {
  const { store, plane, outbox, counts } = parts
  let undo: Undo | undefined
  await counts.timed('ground', () => parts.ground(area))
  store.begin()
  try {
    const change = await counts.timed('rule', () => rule(store.write))
    const diff = await counts.timed('difference', () => difference(parts, change.touch))
    if (diff.length > 0) undo = await counts.timed('kernel', () => plane.apply(diff))
    const eventId = await counts.timed('outbox', () => outbox.append(store.write, area, origin, change.events))
    await counts.timed('commit', store.commit)
    return { change, eventId }
  } catch (error) {
    await counts.timed('undo', () => takeBack(parts, undo, error))
    throw error
  }
}

async function takeBack(parts: PipelineParts, undo: Undo | undefined, cause: unknown): Promise<void> {
  let uncertain = cause instanceof UncertainOutcome
  try {
    await undo?.()
  } catch (error) {
    parts.log.error({ err: error }, 'a change could not be taken back; the kernel is brought to the store again')
    uncertain = true
  }
  parts.store.rollback(cause)
  if (uncertain) await parts.repair(false)
}

/** The reader still sees what the kernel holds, the writer what it shall hold. */
async function difference(parts: PipelineParts, touched: readonly Ref[]): Promise<Passage[]> {
  const { store, areas, config, plane } = parts
  const [before, after]: [Entry[], Entry[]] = [[], []]
  await inSlices(withFollowing(parts, touched), ({ area, id }) => {
    const desired = desiredOn(plane, areas.get(area) ?? {})
    if (desired === undefined) return
    before.push(...desired.one(store.read, id, config))
    after.push(...desired.one(store.write, id, config))
  })
  return stepwise(compare(before, after))
}

/** What was touched, and what of other areas follows from it; each once. */
function* withFollowing({ store, areas }: PipelineParts, touched: readonly Ref[]): Generator<Ref> {
  yield* touched
  const given = new Set(touched.map(({ area, id }) => `${area}/${id}`))
  for (const { name, follows = {} } of areas.values()) {
    for (const { area, id } of touched) {
      const following = follows[area]
      for (const own of following ? [store.read, store.write].flatMap((db) => [...following(db, id)]) : []) {
        if (given.has(`${name}/${own}`)) continue
        given.add(`${name}/${own}`)
        yield { area: name, id: own }
      }
    }
  }
}

/** A refusal by the kernel is the operator's to know: the change does not fit (D69). */
function refusal(error: unknown): unknown {
  if (!(error instanceof KernelRefusal)) return error
  return conflict('KERNEL_REFUSED', `the kernel refused the change: ${error.message}`)
}
