/**
 * Signatures made when they are asked for (RFC 4034 §3) and kept. What denies names that do not exist is kept apart,
 * because strangers choose how much there is of it.
 */
import { sign } from 'node:crypto'
import { ALGORITHM, type Csk } from './keys.ts'
import { labelsOf } from './names.ts'
import { octets, TYPE } from './rdata.ts'

const DAY = 86_400
/** Seconds. Clocks of others may be behind by that much. */
const SKEW = 3 * 3600
const VALIDITY = 14 * DAY
/** Made anew when less is left: no resolver keeps an answer beyond the end of its signature. */
const LEFT = 7 * DAY
/** Signatures of each of two generations; one takes some 300 bytes. */
const LASTING = 65_536
const PASSING = 8_192

export interface RecordSet {
  owner: string
  type: number
  ttl: number
  /** Sorted, without doubles. */
  rdatas: readonly string[]
}

export interface Signature {
  /** RDATA of the RRSIG. */
  rdata: string
  /** Seconds since the epoch during which it is given out. */
  from: number
  until: number
}

export interface Signer {
  /**
   * The signature of a set by the key of its zone. undefined: none is kept and `spend` says that none may be made now.
   * `passing`: the set was made up for a name that does not exist.
   */
  signature(zone: string, csk: Csk, set: RecordSet, passing: boolean, spend: () => boolean): Signature | undefined
  /** How many were made. */
  made(): number
}

/** `now` in seconds since the epoch. */
export function openSigner(now: () => number): Signer {
  const lasting = openKept(LASTING)
  const passing = openKept(PASSING)
  let made = 0
  return {
    signature(zone, csk, set, isPassing, spend) {
      const kept = isPassing ? passing : lasting
      const head = set.owner + octets(set.type, 2) + octets(1, 2) + octets(set.ttl, 4)
      const records = set.rdatas.map((rdata) => head + octets(rdata.length, 2) + rdata).join('')
      // Keys of two zones may have the same tag, so the key itself is part.
      const key = csk.dnskey.slice(4, 20) + records
      const time = now()
      const known = kept.get(key)
      if (known && known.from <= time && time < known.until) return known
      if (!spend()) return undefined
      made++
      const inception = Math.floor(time) - SKEW
      const expiration = Math.floor(time) + VALIDITY
      const fields =
        octets(set.type, 2) +
        octets(ALGORITHM, 1) +
        octets(labelsOf(set.owner).length, 1) +
        octets(set.ttl, 4) +
        octets(expiration, 4) +
        octets(inception, 4) +
        octets(csk.tag, 2) +
        zone
      const data = Buffer.from(fields + records, 'latin1')
      const bytes = sign('sha256', data, { key: csk.key, dsaEncoding: 'ieee-p1363' })
      const fresh = { rdata: fields + bytes.toString('latin1'), from: inception, until: expiration - LEFT }
      kept.set(key, fresh)
      return fresh
    },
    made: () => made,
  }
}

/** Two generations: what was not asked for while the young one filled goes. */
function openKept(size: number) {
  let young = new Map<string, Signature>()
  let old = new Map<string, Signature>()
  const set = (key: string, signature: Signature) => {
    if (young.size >= size) {
      old = young
      young = new Map()
    }
    young.set(key, signature)
  }
  return {
    get(key: string): Signature | undefined {
      const known = young.get(key)
      if (known) return known
      const aged = old.get(key)
      if (aged) set(key, aged)
      return aged
    },
    set,
  }
}

/** The set of a signature beside what it signs. */
export function signatureSet({ owner, ttl }: RecordSet, { rdata }: Signature): RecordSet {
  return { owner, type: TYPE.RRSIG, ttl, rdatas: [rdata] }
}
