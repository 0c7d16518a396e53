/**
 * The pipeline of a mutation, one at a time: rule in an open transaction → difference of the touched entries → kernel →
 * outbox → COMMIT. A failure at any step takes back what was done, and nothing of it remains (promise 1).
 * In a cluster, a mutation that changes rows which all members hold is the cluster's to take, before COMMIT; what another
 * member was first to change is waited for outside the pipeline, and the mutation begins anew. Mutations of the others are
 * adopted: they have happened, and the kernel follows as far as it can.
 */
import type { FastifyBaseLogger } from 'fastify'
import { compare, type Entry, type Passage, type Undo } from '../../dataplane/entry.ts'
import { GroundLost, KernelRefusal, type Plane, UncertainOutcome } from '../../dataplane/plane.ts'
import type { Change, LoadedArea, Mutation, Ref, Rule } from '../area.ts'
import { desiredOn } from '../areas.ts'
import type { Config } from '../config.ts'
import { ApiError, conflict } from '../errors.ts'
import type { PipelineCounts } from '../observe/pipeline.ts'
import { Outrun, openReplication, outrunTooOften, type Replicator } from '../replication.ts'
import { inSlices, stepwise } from '../slices.ts'
import type { Origin, Outbox } from './events.ts'
import type { Queue } from './queue.ts'
import { type Capture, openCapture } from './replicate/capture.ts'
import type { Store } from './store.ts'

export interface PipelineParts {
  queue: Queue
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
  /** By whom rows are replicated; absent where no area keeps a cluster. */
  replicator?(): Replicator | undefined
}

/** How often a mutation that others outrun is begun. */
const ATTEMPTS = 16

export interface Pipeline extends Queue {
  mutate<T>(area: string, origin: Origin, rule: Rule<T>): Promise<Mutation<T>>
  /**
   * Carries out what another member of the cluster has done already: what the kernel refuses waits until it does not, and
   * the rows are stored all the same. Rejects only where the store does.
   */
  adopt<T>(area: string, origin: Origin, rule: Rule<T>): Promise<Mutation<T>>
}

export function openPipeline(parts: PipelineParts): Pipeline {
  const { areas, config, counts, outbox, store } = parts
  const all = [...areas.values()]
  const replication = openReplication(store, all, { config, replicator: parts.replicator ?? (() => undefined) })
  const work: Work = { ...parts, capture: openCapture(store.write, replication), replicator: replication.replicator }
  const { exclusively } = parts.queue

  async function counted<T>(area: string, turn: () => Promise<Done<T>>): Promise<Mutation<T>> {
    const { change, eventId } = await inTurn(turn).catch((error: unknown) => {
      counts.undone(area, error)
      throw error
    })
    counts.done(area)
    outbox.wake()
    return { result: change.result, ...(eventId !== undefined && { eventId }) }
  }

  /** What was outrun waits outside the pipeline, so that what outran it can come in. */
  async function inTurn<T>(turn: () => Promise<Done<T>>): Promise<Done<T>> {
    for (let left = ATTEMPTS; left > 0; left--) {
      const since = performance.now()
      try {
        return await exclusively(() => {
          counts.took('wait', since)
          return turn()
        })
      } catch (error) {
        if (!(error instanceof Outrun)) throw error
        await error.caughtUp
      }
    }
    throw outrunTooOften()
  }

  return {
    ...parts.queue,
    mutate: (area, origin, rule) => counted(area, () => carryOutOnGround(work, area, origin, rule)),
    adopt: (area, origin, rule) => counted(area, () => takeOver(work, area, origin, rule)),
  }
}

interface Work extends PipelineParts {
  capture: Capture
  replicator(): Replicator | undefined
}

interface Done<T> {
  change: Change<T>
  eventId: number | undefined
}

/**
 * A change that the kernel refuses may have been built on what somebody else has taken away meanwhile. Then the kernel
 * is made good and the change tried once more; otherwise the refusal stands (D69).
 */
async function carryOutOnGround<T>(work: Work, area: string, origin: Origin, rule: Rule<T>): Promise<Done<T>> {
  try {
    return await carryOut(work, area, origin, rule)
  } catch (error) {
    if (!(error instanceof KernelRefusal)) throw error
    if (!(await work.repair(!(error instanceof GroundLost)))) throw refusal(error)
    return carryOut(work, area, origin, rule).catch((again: unknown) => {
      throw refusal(again)
    })
  }
}

async function carryOut<T>(work: Work, area: string, origin: Origin, rule: Rule<T>): Promise<Done<T>> {
  const { store, plane, outbox, counts, capture } = work
  let undo: Undo | undefined
  await counts.timed('ground', () => work.ground(area))
  try {
    capture.begin(true)
    store.begin()
    const change = await counts.timed('rule', () => rule(store.write))
    const changes = await capture.taken()
    const cluster = changes.length > 0 ? work.replicator() : undefined
    cluster?.ready()
    const diff = await counts.timed('difference', () => difference(work, change.touch))
    if (diff.length > 0) undo = await counts.timed('kernel', () => plane.apply(diff))
    const eventId = await counts.timed('outbox', () => outbox.append(store.write, area, origin, change.events))
    if (cluster) await counts.timed('cluster', () => cluster.send(store.write, { area, origin, changes }))
    await counts.timed('commit', store.commit)
    return { change, eventId }
  } catch (error) {
    await counts.timed('undo', () => takeBack(work, undo, error))
    throw error
  }
}

/** Nobody is there to be refused: where the kernel does not follow, it is made good afterwards, and again until it does. */
async function takeOver<T>(work: Work, area: string, origin: Origin, rule: Rule<T>): Promise<Done<T>> {
  const { store, plane, outbox, counts, capture } = work
  let undo: Undo | undefined
  let behind = false
  const fellBehind = (error: unknown) => {
    work.log.warn({ err: error, origin }, 'the kernel does not follow a change by another member of the cluster yet')
    behind = true
  }
  await counts.timed('ground', () => work.ground(area)).catch(fellBehind)
  let done: Done<T>
  try {
    capture.begin(false)
    store.begin()
    const change = await counts.timed('rule', () => rule(store.write))
    if (!behind) {
      try {
        const diff = await counts.timed('difference', () => difference(work, change.touch))
        if (diff.length > 0) undo = await counts.timed('kernel', () => plane.apply(diff, 'restore'))
      } catch (error) {
        fellBehind(error)
      }
    }
    const eventId = await counts.timed('outbox', () => outbox.append(store.write, area, origin, change.events))
    await counts.timed('commit', store.commit)
    done = { change, eventId }
  } catch (error) {
    await counts.timed('undo', () => takeBack(work, undo, error))
    throw error
  }
  if (behind) await work.repair(false)
  return done
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

/** A refusal by the kernel is the operator's to know: the change does not fit (D69). What was lost twice may be tried again. */
function refusal(error: unknown): unknown {
  if (error instanceof GroundLost) {
    return new ApiError(503, 'TAKEN_BACK', `the change was taken back: ${error.message}; try again`)
  }
  if (!(error instanceof KernelRefusal)) return error
  return conflict('KERNEL_REFUSED', `the kernel refused the change: ${error.message}`)
}
