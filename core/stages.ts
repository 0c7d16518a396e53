/**
 * How far the start of the agent is. It listens first and answers from its store; what needs more waits here:
 * `plane`, until the data plane is open, so that the kernel can be asked; `start`, until the kernel holds what is stored
 * and the areas run.
 */
import { ApiError, tryAgain } from './errors.ts'

export const NEEDS = ['plane', 'start'] as const
export type Need = (typeof NEEDS)[number]

/** What the agent does until a need is met, for whoever asks meanwhile. */
const DOING: Readonly<Record<Need, string>> = {
  plane: 'the agent is starting: it opens the data plane',
  start: 'the agent is starting: it brings the kernel to what is stored',
}
/** Below the 30 s that a request may take to arrive: its body is not read while it waits. */
const LONGEST_MS = 25_000

/** Nobody reads it. */
const GONE = new ApiError(400, 'ABORTED', 'the caller has gone')

export interface Stages {
  /** What the agent does at its start, in a sentence; undefined once it has started. */
  doing(): string | undefined
  isMet(need: Need): boolean
  /**
   * Undefined when `need` is met; else resolves once it is. Rejects with a 503 after 25 s, and when the agent stops before; at
   * once, and with nothing kept, when whoever asks has `gone`.
   */
  until(need: Need, gone?: AbortSignal): Promise<void> | undefined
  /** A need is met, and those before it are. */
  reached(need: Need): void
  /** Refuses whoever waits. */
  stop(): void
}

export function openStages({ longestMs = LONGEST_MS } = {}): Stages {
  const missing = new Set<Need>(NEEDS)
  const waiting = new Set<{ need: Need; end(refusal?: ApiError): void }>()
  let stopping = false

  const first = (): Need | undefined => missing.values().next().value

  function wait(need: Need, gone?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const own = {
        need,
        end(error?: ApiError) {
          clearTimeout(timer)
          waiting.delete(own)
          if (error === undefined) resolve()
          else reject(error)
        },
      }
      const timer = setTimeout(() => own.end(tryAgain(DOING[first() ?? need])), longestMs)
      waiting.add(own)
      gone?.addEventListener('abort', () => own.end(GONE), { once: true })
    })
  }

  return {
    doing() {
      const need = first()
      return need && DOING[need]
    },
    isMet: (need) => !missing.has(need),
    until(need, gone) {
      if (!missing.has(need)) return undefined
      return stopping ? Promise.reject(tryAgain('the agent stops')) : wait(need, gone)
    },
    reached(need) {
      for (const one of NEEDS.slice(0, NEEDS.indexOf(need) + 1)) missing.delete(one)
      for (const one of [...waiting]) if (!missing.has(one.need)) one.end()
    },
    stop() {
      stopping = true
      for (const one of [...waiting]) one.end(tryAgain('the agent stops'))
    },
  }
}
