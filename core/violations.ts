/**
 * Events of what workloads do against the rules of their ports. The programs tell each violation at most once a second;
 * a thousand ports can still tell more than is good for the store, so here they are taken together and bounded.
 */
import type { PortViolation } from '../dataplane/bpf/port/open.ts'
import type { AreaContext, EventDraft, Stop } from './area.ts'
import { system } from './state/events.ts'

/** Between two writes, and how many events one write has at most. */
const EVERY_MS = 500
const AT_ONCE = 20

/** Stores the event that `draftOf` makes of a violation; undefined leaves it to others. Ends with what it returns. */
export function tellViolations(
  { plane, mutate, log }: Pick<AreaContext, 'plane' | 'mutate' | 'log'>,
  draftOf: (violation: PortViolation) => EventDraft | undefined,
): Stop {
  let waiting: EventDraft[] = []
  let left = 0
  let timer: NodeJS.Timeout | undefined
  let writing: Promise<unknown> = Promise.resolve()

  function write(): void {
    timer = undefined
    const events = waiting
    if (left > 0) log.warn({ left }, 'more violations on the workload ports than events are stored of')
    waiting = []
    left = 0
    writing = mutate(system('data plane'), () => ({ result: undefined, touch: [], events })).catch((error: unknown) =>
      log.error({ err: error }, 'violations could not be stored'),
    )
  }

  const stop = plane.ports.onViolation((violation) => {
    const draft = draftOf(violation)
    if (draft === undefined) return
    if (waiting.length < AT_ONCE) waiting.push(draft)
    else left++
    timer ??= setTimeout(write, EVERY_MS).unref()
  })
  return async () => {
    stop()
    clearTimeout(timer)
    if (waiting.length > 0) write()
    await writing
  }
}
