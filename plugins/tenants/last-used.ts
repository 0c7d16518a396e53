/**
 * Notes when keys were last used: at most once a minute a key, and many keys in one transaction, so that a request costs no
 * write. It is no change by the API: a frozen licence does not stop it, and it tells nobody.
 */
import type { AreaContext } from '../../core/area.ts'
import { system } from '../../core/state/events.ts'
import { queries } from './queries.ts'
import type { KeyRow } from './tables.ts'

const EVERY_MS = 60_000
/** How long uses are gathered before they are written. */
const GATHERED_MS = 1000

export interface LastUsed {
  /** `row` is the key as it is stored, `at` the time of this use. */
  note(row: Pick<KeyRow, 'id' | 'lastUsedAt'>, at: string): void
  /** Writes what is gathered, and nothing from then on. */
  stop(): Promise<void>
}

export interface LastUsedParts {
  /** Stores the last use of keys, by id. */
  write(uses: ReadonlyMap<string, string>): Promise<unknown>
  log: { warn(problem: object, text: string): void }
}

export function openLastUsed({ write, log }: LastUsedParts, gatheredMs = GATHERED_MS): LastUsed {
  let gathered = new Map<string, string>()
  let timer: NodeJS.Timeout | undefined
  let stopped = false

  async function flush(): Promise<void> {
    clearTimeout(timer)
    timer = undefined
    const uses = gathered
    gathered = new Map()
    if (uses.size === 0) return
    // What fails is noted again at the next use, because the row says still that it is old.
    await write(uses).catch((error: unknown) => log.warn({ err: error }, 'the last use of keys was not stored'))
  }

  return {
    note({ id, lastUsedAt }, at) {
      if (stopped || (lastUsedAt !== '' && Math.abs(Date.parse(at) - Date.parse(lastUsedAt)) < EVERY_MS)) return
      gathered.set(id, at)
      timer ??= setTimeout(flush, gatheredMs).unref()
    },
    stop() {
      stopped = true
      return flush()
    },
  }
}

/** The write of `openLastUsed`, through the pipeline. */
export const storeUses =
  ({ mutate }: Pick<AreaContext, 'mutate'>): LastUsedParts['write'] =>
  (uses) =>
    mutate(system('tenants'), (tx) => {
      for (const [id, lastUsedAt] of uses) queries(tx).used.run({ id, lastUsedAt })
      return { result: undefined, touch: [], events: [] }
    })
