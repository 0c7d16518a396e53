/** Whose connections come first where there is no room for all: known by what an address has shown before. */
import type { Caller } from './gate.ts'

/** Nobody, who has shown a tenant's key, who has shown an operator's credential: the higher gives way to the lower. */
export const STRANGER = 0
export const TENANT = 1
export const OPERATOR = 2
export type Standing = typeof STRANGER | typeof TENANT | typeof OPERATOR

export interface Standings {
  /** A credential of this kind was accepted from the source `key`. */
  note(key: string, kind: Caller['kind']): void
  of(key: string): Standing
}

/** So many sources of each standing are remembered: those that were heard last. */
const MOST = 1024
/** How long, in ms. */
const KEEP_MS = 7 * 86_400_000

/** In memory only: after a restart everybody shows anew who they are. `now`: milliseconds. */
export function standings(now: () => number): Standings {
  const heard = { [TENANT]: new Map<string, number>(), [OPERATOR]: new Map<string, number>() }
  const isFresh = (standing: typeof TENANT | typeof OPERATOR, key: string) => {
    const at = heard[standing].get(key)
    return at !== undefined && now() - at < KEEP_MS
  }
  return {
    note(key, kind) {
      const map = heard[kind === 'tenant' ? TENANT : OPERATOR]
      map.delete(key)
      map.set(key, now())
      const [oldest] = map.keys()
      if (map.size > MOST && oldest !== undefined) map.delete(oldest)
    },
    of: (key) => (isFresh(OPERATOR, key) ? OPERATOR : isFresh(TENANT, key) ? TENANT : STRANGER),
  }
}
