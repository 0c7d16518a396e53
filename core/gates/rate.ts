import type { Config } from '../config.ts'
import { type ApiError, tooMany } from '../errors.ts'
import type { Call, Gate } from './gate.ts'

interface Bucket {
  tokens: number
  /** Milliseconds of the last refill. */
  at: number
}

export interface Rate {
  gate: Gate
  /** Says in the headers what is left; before any gate, so that every answer says it (D18). */
  tell(call: Pick<Call, 'client' | 'reply'>): void
  /** Takes one token for `key`, for handshakes outside Fastify. */
  take(key: string): ApiError | undefined
}

const MAX_BUCKETS = 100_000

/** D37: a token bucket per source address; a refused request takes nothing. */
export function rate(config: Config, now: () => number): Rate {
  const buckets = new Map<string, Bucket>()
  let perMs = 0
  let burst = 0
  const read = () => {
    perMs = config.int('api_rate_limit') / 60_000
    burst = config.int('api_rate_burst')
  }
  read()
  config.onChange((key) => key.startsWith('api_rate_') && read())

  const bucketOf = (key: string): Bucket => {
    const time = now()
    const found = buckets.get(key)
    if (found === undefined) {
      if (buckets.size >= MAX_BUCKETS) forgetFull(buckets, burst, perMs, time)
      const made = { tokens: burst, at: time }
      buckets.set(key, made)
      return made
    }
    found.tokens = Math.min(burst, found.tokens + Math.max(0, time - found.at) * perMs)
    found.at = time
    return found
  }
  const spend = (bucket: Bucket): ApiError | undefined => {
    if (bucket.tokens >= 1) {
      bucket.tokens -= 1
      return undefined
    }
    return tooMany('RATE_LIMITED', 'rate limit exceeded', (1 - bucket.tokens) / perMs / 1000)
  }

  const tell: Rate['tell'] = ({ client, reply }) => {
    if (client.control) return
    const { tokens } = bucketOf(client.key)
    reply.header('ratelimit-limit', burst)
    reply.header('ratelimit-remaining', Math.floor(tokens))
    reply.header('ratelimit-reset', Math.ceil((burst - tokens) / perMs / 1000))
  }

  return {
    take: (key) => spend(bucketOf(key)),
    tell,
    gate(call) {
      if (call.client.control) return undefined
      const refusal = spend(bucketOf(call.client.key))
      tell(call)
      return refusal
    },
  }
}

/** Drops the buckets that are full again, which is the same as not knowing them; all, should none be. */
function forgetFull(buckets: Map<string, Bucket>, burst: number, perMs: number, time: number): void {
  for (const [key, { tokens, at }] of buckets) if (tokens + (time - at) * perMs >= burst) buckets.delete(key)
  if (buckets.size >= MAX_BUCKETS) buckets.clear()
}
