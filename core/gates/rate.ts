import type { Config } from '../config.ts'
import { type ApiError, tooMany } from '../errors.ts'
import { forgetting } from './forget.ts'
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

/**
 * D37: a token bucket per source address; a refused request takes nothing. `RateLimit-Policy` is that of
 * draft-ietf-httpapi-ratelimit-headers: the quota `q` of requests in a window of `w` seconds, and how many may come at once.
 */
export function rate(config: Config, now: () => number): Rate {
  const buckets = new Map<string, Bucket>()
  let perMs = 0
  let burst = 0
  let policy = ''
  const read = () => {
    perMs = config.int('api_rate_limit') / 60_000
    burst = config.int('api_rate_burst')
    policy = `"address";q=${config.int('api_rate_limit')};w=60;burst=${burst}`
  }
  read()
  config.onChange((key) => key.startsWith('api_rate_') && read())

  /** A full bucket says as much as none. */
  const isFull = ({ tokens, at }: Bucket, time: number) => tokens + (time - at) * perMs >= burst
  const forget = forgetting(buckets, isFull)

  const bucketOf = (key: string): Bucket => {
    const time = now()
    forget(time)
    const found = buckets.get(key)
    if (found === undefined) {
      if (buckets.size >= MAX_BUCKETS) makeRoom(buckets, (bucket) => isFull(bucket, time))
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
    reply.header('ratelimit-policy', policy)
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

/** Drops the buckets that are full; all, should that be few, because the next to come would look through the rest again. */
function makeRoom(buckets: Map<string, Bucket>, isFull: (bucket: Bucket) => boolean): void {
  for (const [key, bucket] of buckets) if (isFull(bucket)) buckets.delete(key)
  if (buckets.size > MAX_BUCKETS * 0.9) buckets.clear()
}
