/**
 * The pipeline of a mutation, one at a time: rule in an open transaction → difference of the touched entries → kernel →
 * outbox → COMMIT. A failure at any step takes back what was done, and nothing of it remains (promise 1).
 */
import type { FastifyBaseLogger } from 'fastify'
import { type Entry, type Passage, passages, type Undo } from '../../dataplane/entry.ts'
import { KernelRefusal, type Plane, UncertainOutcome } from '../../dataplane/plane.ts'
import type { Change, LoadedArea, Mutation, Ref, Rule } from '../area.ts'
import type { Config } from '../config.ts'
import { conflict } from '../errors.ts'
import { inSlices } from '../slices.ts'
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
  /**
   * Brings the kernel to what is committed, when an undo failed, an outcome is unknown or the kernel refused a change.
   * Resolves to true when something had to be done for that.
   */
  repair(): Promise<boolean>
  /** Rejects while the kernel does not hold what is committed and cannot be brought to it: nothing is built on that. */
  ground(): Promise<void>
}

export interface Pipeline {
  mutate<T>(area: string, origin: Origin, rule: Rule<T>): Promise<Mutation<T>>
  /** Runs `work` while no mutation runs. */
  exclusively<T>(work: () => Promise<T>): Promise<T>
}

export function openPipeline(parts: PipelineParts): Pipeline {
  let tail: Promise<unknown> = Promise.resolve()

  function exclusively<T>(work: () => Promise<T>): Promise<T> {
    const run = tail.then(work)
    tail = run.catch(() => {})
    return run
  }

  return {
    exclusively,
    async mutate(area, origin, rule) {
      const { change, eventId } = await exclusively(() => carryOutOnGround(parts, area, origin, rule))
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
    if (!(await parts.repair())) throw refusal(error)
    return carryOut(parts, area, origin, rule).catch((again: unknown) => {
      throw refusal(again)
    })
  }
}

async function carryOut<T>(parts: PipelineParts, area: string, origin: Origin, rule: Rule<T>): Promise<Done<T>> {
  const { store, plane, outbox } = parts
  let undo: Undo | undefined
  await parts.ground()
  store.begin()
  try {
    const change = await rule(store.write)
    const diff = await difference(parts, change.touch)
    if (diff.length > 0) undo = await plane.apply(diff)
    const eventId = await outbox.append(store.write, area, origin, change.events)
    store.commit()
    return { change, eventId }
  } catch (error) {
    await takeBack(parts, undo, error)
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
  parts.store.rollback()
  if (uncertain) await parts.repair()
}

/** The reader still sees what the kernel holds, the writer what it shall hold. */
async function difference({ store, areas, config }: PipelineParts, touched: readonly Ref[]): Promise<Passage[]> {
  const [before, after]: [Entry[], Entry[]] = [[], []]
  await inSlices(touched, ({ area, id }) => {
    const desired = areas.get(area)?.desired
    if (desired === undefined) return
    before.push(...desired.one(store.read, id, config))
    after.push(...desired.one(store.write, id, config))
  })
  return passages(before, after)
}

/** A refusal by the kernel is the operator's to know: the change does not fit (D69). */
function refusal(error: unknown): unknown {
  if (!(error instanceof KernelRefusal)) return error
  return conflict('KERNEL_REFUSED', `the kernel refused the change: ${error.message}`)
}
