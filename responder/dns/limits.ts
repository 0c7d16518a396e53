/**
 * What strangers may make us spend: signatures, and bytes sent to an address that they may have forged. Buckets of tokens,
 * one for all and one for each prefix (IPv4 /24, IPv6 /56); prefixes are hashed into a fixed number of buckets.
 */
import { randomInt } from 'node:crypto'

const BUCKETS = 4096

export interface Rate {
  /** A second. */
  rate: number
  burst: number
}

export interface Limits {
  /** Signatures made for everybody; UDP and TCP each have that much, so that forged UDP leaves TCP alone. */
  signatures: Rate
  /** For one prefix. */
  prefixSignatures: Rate
  /** Answers larger than 512 octets to one prefix over UDP. */
  largeAnswers: Rate
  /** Octets of all answers to one prefix over UDP, with the headers of their packets. */
  octets: Rate
}

/** A signature takes some 45 µs: a tenth of a core at most, each for UDP and TCP. */
export const LIMITS: Limits = {
  signatures: { rate: 2000, burst: 4000 },
  prefixSignatures: { rate: 500, burst: 2000 },
  largeAnswers: { rate: 200, burst: 1000 },
  octets: { rate: 64 << 10, burst: 64 << 10 },
}

export interface Buckets {
  /** Takes tokens, one by default, of the bucket that `key` falls into; false when it has fewer. */
  take(key: number, tokens?: number): boolean
}

/** `now` in milliseconds, of a clock that never goes back. */
export function openBuckets({ rate, burst }: Rate, now: () => number, size = BUCKETS): Buckets {
  const tokens = new Float64Array(size).fill(burst)
  const times = new Float64Array(size).fill(now())
  return {
    take(key, wanted = 1) {
      const at = (key >>> 0) % size
      const time = now()
      const left = Math.min(burst, (tokens[at] as number) + ((time - (times[at] as number)) * rate) / 1000)
      times[at] = time
      tokens[at] = left < wanted ? left : left - wanted
      return left >= wanted
    },
  }
}

/** A number for the prefix of the address in the `size` (4 or 16) octets at `at`; other ones in every process. */
export function openPrefixes(): (bytes: Uint8Array, at: number, size: number) => number {
  const seed = randomInt(2 ** 32)
  return (bytes, at, size) => {
    let hash = seed
    const end = at + (size === 4 ? 3 : 7)
    for (let n = at; n < end; n++) hash = Math.imul(hash ^ (bytes[n] as number), 0x01000193)
    return (hash ^ (hash >>> 15)) >>> 0
  }
}

/** What becomes of an answer over UDP. */
export type Fate = 'sent' | 'truncated' | 'dropped'

/**
 * Judges answers by the octets that their prefix has got. Beyond the rate every second one is sent without content, so that who
 * did ask comes back over TCP, and the others are dropped: whoever forges the address gets less out of us than he puts in.
 */
export function openMeter(octets: Rate, now: () => number): (prefix: number, size: number) => Fate {
  const buckets = openBuckets(octets, now)
  const turns = new Uint8Array(BUCKETS)
  return (prefix, size) => {
    if (buckets.take(prefix, size)) return 'sent'
    const at = prefix % BUCKETS
    turns[at] = 1 - (turns[at] as number)
    return turns[at] === 1 ? 'truncated' : 'dropped'
  }
}
