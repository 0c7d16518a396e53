/** The engine without sockets: octets in, octets out. */
import { LIMITS, type Limits } from '../limits.ts'
import { openResponder } from '../respond.ts'
import { openSigner } from '../sign.ts'
import { openZones } from '../zones.ts'

const ROOM = 2
export const MANY = { rate: 1e9, burst: 1e9 }

export interface AskingOptions {
  limits?: Partial<Limits>
  /** Milliseconds, for limits. */
  ticks?(): number
}

export function openAsking({ limits = {}, ticks = () => 0 }: AskingOptions = {}) {
  const zones = openZones()
  const now = () => 1_700_000_000
  const signer = openSigner(now)
  const responder = openResponder({
    zones,
    signer,
    now,
    ticks,
    limits: { ...LIMITS, octets: MANY, ...limits },
    onError(error) {
      throw error
    },
  })
  const reply = Buffer.alloc(ROOM + 65_535)
  return {
    zones,
    signer,
    counters: responder.counters,
    /** The answer, or undefined for silence; `source` has 4 or 16 octets. Valid until the next one. */
    ask(bytes: Buffer, source: Buffer, overTcp = false): Buffer | undefined {
      const request = { bytes, at: 0, length: bytes.length, source, sourceAt: 0, sourceSize: source.length, overTcp }
      const size = responder.respond(request, reply, ROOM)
      return size === 0 ? undefined : reply.subarray(ROOM, ROOM + size)
    },
  }
}
