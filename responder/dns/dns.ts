/** The authoritative DNS server (D53): holds zones and records, and answers on the addresses that it is given. */
import type { DnsListener } from '../../dataplane/responder/entries.ts'
import { bindFailure, endpoint } from '../socket.ts'
import { type Batch, openBatch, openUdp, PEER_SIZE, REPLY_SIZE, REQUEST_SIZE, type UdpSocket } from '../udp.ts'
import type { Counters } from './counters.ts'
import { LIMITS, type Limits } from './limits.ts'
import { openResponder } from './respond.ts'
import { openSigner } from './sign.ts'
import { openTcp, type TcpListener } from './tcp.ts'
import { openZones, type ZonePassage } from './zones.ts'

/** After an error of the socket. */
const REOPEN = 1000

export interface DnsOptions {
  limits?: Limits
  /** Milliseconds since the epoch; default Date.now. */
  now?(): number
  /** Milliseconds of a clock that never goes back; default performance.now. */
  ticks?(): number
  /** A mistake of ours, or a socket that was lost and is opened again. At most what strangers cause by finding one. */
  onError?(error: unknown): void
}

export interface ListenerPassage {
  before?: DnsListener
  after?: DnsListener
}

export interface DnsStats extends Counters {
  zones: number
  records: number
  listeners: number
  connections: number
  /** Made, not found again. */
  signatures: number
}

export interface Dns {
  /** Zones and records: all or nothing, and in force when it returns. Throws Error for what cannot be held. */
  apply(passages: readonly ZonePassage[]): void
  /** Sockets: all or nothing. Rejects with an Error for the operator. One call at a time. */
  applyListeners(passages: readonly ListenerPassage[]): Promise<void>
  stats(): DnsStats
  close(): Promise<void>
}

interface Open {
  udp: UdpSocket
  tcp: TcpListener
}

export function openDns({
  limits = LIMITS,
  now = Date.now,
  ticks = () => performance.now(),
  onError = () => {},
}: DnsOptions = {}): Dns {
  const seconds = () => now() / 1000
  const zones = openZones()
  const signer = openSigner(seconds)
  const { respond, counters } = openResponder({ zones, signer, limits, now: seconds, ticks, onError })
  const batch = openBatch()
  const request = {
    bytes: batch.requests,
    at: 0,
    length: 0,
    source: batch.peers,
    sourceAt: 0,
    sourceSize: 4,
    overTcp: false,
  }
  const wanted = new Map<string, DnsListener>()
  /** By address and port. */
  const listening = new Map<string, Open>()
  const reopening = new Set<NodeJS.Timeout>()

  return {
    apply: zones.apply,
    async applyListeners(passages) {
      const next = new Map(wanted)
      for (const { before } of passages) if (before) next.delete(before.key)
      for (const { after } of passages) if (after) next.set(after.key, after)
      const places = new Map([...next.values()].map((one) => [endpoint(one.address, one.port), one]))
      const opened = new Map<string, Open>()
      try {
        for (const [place, one] of places) if (!listening.has(place)) opened.set(place, await open(one))
      } catch (error) {
        await Promise.all([...opened.values()].map(shut))
        throw error
      }
      for (const [place, one] of opened) listening.set(place, one)
      const gone = [...listening].filter(([place]) => !places.has(place))
      for (const [place] of gone) listening.delete(place)
      wanted.clear()
      for (const [key, one] of next) wanted.set(key, one)
      await Promise.all(gone.map(([, one]) => shut(one)))
    },
    stats: () => ({
      ...counters,
      ...zones.counts(),
      listeners: listening.size,
      connections: [...listening.values()].reduce((sum, { tcp }) => sum + tcp.connections(), 0),
      signatures: signer.made(),
    }),
    async close() {
      for (const timer of reopening) clearTimeout(timer)
      const open = [...listening.values()]
      wanted.clear()
      listening.clear()
      await Promise.all(open.map(shut))
    },
  }

  async function open({ address, port }: DnsListener): Promise<Open> {
    let udp: UdpSocket | undefined
    try {
      udp = bindUdp(address, port)
      return { udp, tcp: await openTcp(address, port, respond) }
    } catch (error) {
      udp?.close()
      throw bindFailure(error, address, port, 'DNS server')
    }
  }

  async function shut({ udp, tcp }: Open): Promise<void> {
    udp.close()
    await tcp.close()
  }

  function bindUdp(address: string, port: number): UdpSocket {
    const size = address.includes(':') ? 16 : 4
    const udp: UdpSocket = openUdp({
      address,
      port,
      batch,
      answer: (batch, slot, length) => datagram(batch, slot, length, size),
      onError(error) {
        onError(error)
        udp.close()
        reopen(address, port)
      },
    })
    return udp
  }

  function datagram(batch: Batch, slot: number, length: number, size: number): number {
    request.at = slot * REQUEST_SIZE
    request.length = length
    request.sourceAt = slot * PEER_SIZE + (size === 4 ? 4 : 8)
    request.sourceSize = size
    return respond(request, batch.replies, slot * REPLY_SIZE)
  }

  /** Until it succeeds or nobody wants it any more. */
  function reopen(address: string, port: number): void {
    const timer = setTimeout(() => {
      reopening.delete(timer)
      const place = listening.get(endpoint(address, port))
      if (place === undefined) return
      try {
        place.udp = bindUdp(address, port)
      } catch (error) {
        onError(error)
        reopen(address, port)
      }
    }, REOPEN)
    reopening.add(timer)
  }
}
