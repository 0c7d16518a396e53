/**
 * What MACs may send and get, as keyed entries: `shape` a MAC, `rate_pool` what several share, `ceiling` the whole node.
 * Rates are bits a second, MACs canonical text.
 */

export type ShapingEntry = Shape | RatePool | Ceiling | Leftover
export const SHAPING_KINDS = ['shape', 'rate_pool', 'ceiling', 'leftover'] as const

export interface Rates {
  rate: number
  /** Bytes that pass at once after a silence. */
  burst: number
  /** Of a pool, what is there for this MAC alone; 0 for nothing. */
  guaranteed: number
}

export interface Shape {
  kind: 'shape'
  key: string
  mac: string
  /** From 1 to SHAPE_NUMBERS, its own while it lies in the same pool. */
  number: number
  /** Number of its pool, 0 for none. */
  pool: number
  /** ifindex of the only port that the limit is for; 0 is any. */
  interface: number
  up?: Rates
  down?: Rates
  quota?: QuotaEntry
  /** Observed entries only: the kernel does not hold all of it. */
  damaged?: true
}

export interface QuotaEntry {
  /** From 0 to QUOTA_ROWS - 1, its own. */
  slot: number
  /** Never used again for another quota. */
  number: number
  limit: number
  /** Bytes from which on it is nearly used up. */
  warn: number
  /** `count` leaves traffic alone. */
  action: 'count' | 'block' | 'throttle'
  /** Bits a second, each way, while it throttles. */
  throttle: number
  /** What was used, and in which month, when that was last stored: counts where the kernel knows nothing better. */
  stored: { used: number; month: number }
}

export interface RatePool {
  kind: 'rate_pool'
  key: string
  /** From 1 to SHAPE_NUMBERS. */
  number: number
  rate: number
  /** Observed entries only. */
  damaged?: true
}

/** What all workloads of the node together may send, and get. */
export interface Ceiling {
  kind: 'ceiling'
  key: string
  rate: number
  /** Observed entries only. */
  damaged?: true
}

/** Observed entries only: what no entry asks for. Nobody desires it, so the next pass removes it. */
export interface Leftover {
  kind: 'leftover'
  key: string
  what: { mac: string } | { shard: number; way: 'up' | 'down'; minor: number }
}

type Fields<E extends ShapingEntry> = Omit<E, 'kind' | 'key' | 'damaged'>

export const shape = (area: string, fields: Fields<Shape>): Shape => ({
  kind: 'shape',
  key: `${area}/shape/${fields.mac}`,
  ...fields,
})

export const ratePool = (area: string, fields: Fields<RatePool>): RatePool => ({
  kind: 'rate_pool',
  key: `${area}/rate_pool/${fields.number}`,
  ...fields,
})

export const ceiling = (area: string, rate: number): Ceiling => ({ kind: 'ceiling', key: `${area}/ceiling`, rate })

export const isShaping = (entry: { kind: string }): entry is ShapingEntry =>
  SHAPING_KINDS.some((kind) => kind === entry.kind)

/** Everything about an entry that the kernel must hold, as one comparable string. */
export function shapingFingerprint(entry: ShapingEntry): string {
  if ('damaged' in entry) return 'damaged'
  switch (entry.kind) {
    case 'shape': {
      const { stored: _, ...quota } = entry.quota ?? { stored: 0 }
      const { mac, number, pool, interface: port, up, down } = entry
      return JSON.stringify([mac, number, pool, port, textOf(up), textOf(down), quota])
    }
    case 'rate_pool':
      return `rate_pool ${entry.number} ${entry.rate}`
    case 'ceiling':
      return `ceiling ${entry.rate}`
    case 'leftover':
      return 'leftover'
  }
}

const textOf = (rates: Rates | undefined): string => (rates ? `${rates.rate} ${rates.burst} ${rates.guaranteed}` : '')
