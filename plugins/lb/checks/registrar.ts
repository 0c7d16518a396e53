/** Stores what checks have found out: one change for all that was found out during the one before. */
import type { AreaContext } from '../../../core/area.ts'
import { system } from '../../../core/state/events.ts'
import { settle, type Verdict } from '../backends.ts'
import { noting } from '../evict.ts'

/** Each may render a VIP of its own. */
const AT_ONCE = 64

export interface Registrar {
  /** Resolves when it is stored and in the kernel, or could not be. Never rejects. */
  store(verdict: Verdict): Promise<void>
}

interface Waiting {
  verdict: Verdict
  done: () => void
}

export function openRegistrar(parts: Pick<AreaContext, 'mutate' | 'log' | 'plane' | 'read'>): Registrar {
  const { mutate, log } = parts
  const waiting: Waiting[] = []
  let busy = false

  const change = (verdicts: readonly Verdict[]) =>
    mutate(
      system('health check'),
      noting(parts, (tx) => settle(tx, verdicts)),
    )

  async function storeAll(): Promise<void> {
    while (waiting.length > 0) {
      const portion = waiting.splice(0, AT_ONCE)
      // One that the kernel refuses keeps no other from being stored.
      await change(portion.map(({ verdict }) => verdict)).catch(async (error: unknown) => {
        for (const { verdict } of portion.length > 1 ? portion : []) await change([verdict]).catch(tell)
        if (portion.length === 1) tell(error)
      })
      for (const { done } of portion) done()
    }
  }
  const tell = (error: unknown) =>
    log.error({ err: error }, 'what a health check found out could not be stored; the next one tries again')

  return {
    store: (verdict) =>
      new Promise((done) => {
        waiting.push({ verdict, done })
        if (busy) return
        busy = true
        void storeAll().finally(() => {
          busy = false
        })
      }),
  }
}
