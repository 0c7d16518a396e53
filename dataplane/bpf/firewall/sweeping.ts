/** When what changes left behind is done away with: soon after them, and at once when room is short. */
import { setTimeout as delay } from 'node:timers/promises'
import { Pace } from '../../slices.ts'
import type { Classifier, Remains } from './classifier.ts'
import { sweep } from './upkeep.ts'

/** How long changes are gathered for one grace period. */
const TOGETHER_MS = 10

export interface Sweeping {
  /** Something was left behind. */
  begin(): void
  /** Whether some of it has not been done away with. */
  isBehind(): boolean
  /** Does away with all of it before anything else is done. In the turn of a change. */
  catchUp(): Promise<void>
  close(): Promise<void>
}

export interface SweepingParts {
  classifier: Classifier
  inTurn<T>(work: () => Promise<T>): Promise<T>
  grace(): Promise<void>
  /** Does `work` again with more memory for as long as there is not enough. */
  growing(work: () => Promise<void>): Promise<void>
  onProblem(error: unknown): void
}

export function sweeping({ classifier, inTurn, grace, growing, onProblem }: SweepingParts): Sweeping {
  /** What waits for the end of a grace period, or for its turn after that. Whoever sweeps it takes out what is done. */
  let hand: readonly Remains[] = []
  let running: Promise<void> | undefined
  let closed = false
  const ending = new AbortController()

  /** Does a part of it; true when there is more. */
  async function part(remains: readonly Remains[]): Promise<boolean> {
    let more = false
    await growing(async () => {
      more = await sweep(classifier, remains)
    })
    return more
  }

  function putBack(): void {
    for (const rest of hand) classifier.leave(rest)
    hand = []
  }

  async function run(): Promise<void> {
    // Not at once: what follows soon shares the grace period.
    await delay(TOGETHER_MS, undefined, { ref: false, signal: ending.signal }).catch(() => {})
    const pace = new Pace()
    while (!closed) {
      const mine = classifier.take()
      if (mine.length === 0) break
      hand = mine
      await grace()
      for (let more = true; more && !closed; await pace.rest()) {
        more = await inTurn(() => pace.during(() => part(mine)))
      }
      if (!closed) hand = []
    }
    putBack()
  }

  return {
    begin() {
      if (closed) return
      running ??= run()
        .catch((error: unknown) => {
          // With the next change there may be room.
          putBack()
          onProblem(error)
        })
        .finally(() => {
          running = undefined
        })
    },

    isBehind: () => hand.length > 0 || classifier.isBehind,

    async catchUp() {
      // Tidying leaves something behind in turn, which is free after another grace period.
      for (let rest = [...hand, ...classifier.take()]; rest.length > 0; rest = classifier.take()) {
        await grace()
        while (await part(rest));
      }
    },

    async close() {
      closed = true
      // Nobody waits for a timer that keeps no process alive.
      ending.abort()
      await running
    },
  }
}
