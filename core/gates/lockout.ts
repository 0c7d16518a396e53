import type { Config } from '../config.ts'
import { type ApiError, tooMany } from '../errors.ts'
import type { Gate } from './gate.ts'

/** A source address that is blocked now. */
export interface Block {
  /** Address, or the /64 of an IPv6 one. */
  address: string
  /** RFC 3339 UTC. */
  until: string
  failures: number
}

interface Record {
  /** Milliseconds of the failures within the window, oldest first. */
  failures: number[]
  blockedUntil: number
}

export interface Lockout {
  gate: Gate
  /** The refusal for a blocked address, for the transports that have no Fastify request. */
  refusal(key: string): ApiError | undefined
  /** Counts a credential that was presented and is wrong. */
  fail(key: string): void
  blocks(): Block[]
  unblock(address: string): boolean
}

/** More addresses than this are not remembered: the ones whose failures lie longest back go first. */
const MAX_ADDRESSES = 100_000

/**
 * D36: as many failures within the window as the limit says block the source address for a while.
 * Success does not clear the count. In memory only: a restart forgets.
 */
export function lockout(config: Config, now: () => number): Lockout {
  const records = new Map<string, Record>()
  const limits = { failures: 0, windowMs: 0, blockMs: 0 }
  const read = () => {
    limits.failures = config.int('api_auth_fail_limit')
    limits.windowMs = config.int('api_auth_fail_window') * 1000
    limits.blockMs = config.int('api_auth_block_seconds') * 1000
  }
  read()
  config.onChange((key) => key.startsWith('api_auth_') && read())

  const refusal = (key: string): ApiError | undefined => {
    const record = records.get(key)
    if (record === undefined) return undefined
    const left = record.blockedUntil - now()
    if (left <= 0) return undefined
    return tooMany('BLOCKED', 'too many failed authentication attempts', left / 1000)
  }

  return {
    refusal,
    gate: ({ client }) => (records.size === 0 || client.control ? undefined : refusal(client.key)),
    fail(key) {
      const time = now()
      const since = time - limits.windowMs
      const record = records.get(key) ?? { failures: [], blockedUntil: 0 }
      while ((record.failures[0] ?? time) <= since) record.failures.shift()
      record.failures.push(time)
      if (record.failures.length >= limits.failures) {
        record.blockedUntil = time + limits.blockMs
        record.failures = []
      }
      records.delete(key)
      records.set(key, record)
      if (records.size > MAX_ADDRESSES) forgetOldest(records)
    },
    blocks: () =>
      [...records]
        .filter(([, { blockedUntil }]) => blockedUntil > now())
        .map(([address, { blockedUntil }]) => ({
          address,
          until: new Date(blockedUntil).toISOString(),
          failures: limits.failures,
        })),
    unblock: (address) => records.delete(address),
  }
}

/**
 * Insertion order is order of the last failure. The oldest go even if they are blocked: memory has to end somewhere.
 * Many at once, because a Map that loses its first entry again and again is searched from its start each time.
 */
function forgetOldest(records: Map<string, Record>): void {
  let count = MAX_ADDRESSES / 10
  for (const key of records.keys()) {
    records.delete(key)
    if (--count <= 0) return
  }
}
