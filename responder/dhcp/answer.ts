/**
 * What a DHCP server answers (RFC 2131 §4.3): pure, from a request, where it came from, what is served, and the time.
 *
 * A MAC has the address that it is bound to and no other, so there is nothing to choose and nothing to hold between an
 * offer and its request. Who is not bound gets no answer, but for the one who was bound until now and renews: it is told
 * no, so that it lets go of the address. What came through a relay is not answered: whoever is served is on the bridge.
 */
import type { LeaseEvent } from '../../dataplane/responder/protocol.ts'
import { addressText } from './address.ts'
import type { Binding, Book, Network } from './book.ts'
import { addressBytes, addressOption, numberBytes, OPTION, type Request, roomFor, TYPE, writeReply } from './message.ts'

/** Where a request came from, as the kernel proves it. */
export interface Origin {
  /** The network that its frame was stamped with. */
  net: number
  /** Source address of its packet. */
  source: number
}

export const BROADCAST = 0xffffffff

export interface Outcome {
  /** What is counted. */
  what: 'offer' | 'ack' | 'nak' | 'inform' | 'release' | 'decline' | 'unknown' | 'relayed' | 'ignored'
  reply?: { bytes: Buffer; from: number; to: number }
  event?: LeaseEvent
}

/** What every client must take (RFC 2131 §2). */
const SMALLEST_DATAGRAM = 576
/** What fits through any link of Ethernet. */
const LARGEST_DATAGRAM = 1500
/** What is told to a client that does not say what it wants to know. */
const USUAL: readonly number[] = [
  OPTION.mask,
  OPTION.router,
  OPTION.dns,
  OPTION.hostname,
  OPTION.domain,
  OPTION.mtu,
  OPTION.broadcast,
]
const HOSTNAME =
  /^(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$/

/** `now` in Unix milliseconds. */
export function answer(book: Book, request: Request, origin: Origin, now: number): Outcome {
  if (request.giaddr !== 0 || request.options.has(OPTION.relayAgent)) return { what: 'relayed' }
  const network = book.network(origin.net)
  if (network === undefined) return { what: 'unknown' }
  const binding = book.binding(origin.net, request.mac)
  if (binding === undefined) {
    const gone =
      request.type === TYPE.request && isForUs(request, network) && book.hadLease(origin.net, request.mac, now)
    return gone ? refuse(network, request, 'the address is not yours any more') : { what: 'unknown' }
  }
  switch (request.type) {
    case TYPE.discover:
      return grant(TYPE.offer, network, binding, request)
    case TYPE.request:
      return answerRequest(book, network, binding, request, now)
    case TYPE.inform:
      return request.ciaddr === binding.address ? inform(network, binding, request) : { what: 'ignored' }
    case TYPE.release:
      // The kernel has proven the source; whoever else says so has nothing to give back.
      return request.ciaddr === binding.address && origin.source === binding.address && isForUs(request, network)
        ? { what: 'release', event: lease('revoked', network, binding, request, now) }
        : { what: 'ignored' }
    case TYPE.decline:
      // There is no other address to give, and who says it is not proven: it is counted, and the client asks anew.
      return { what: isForUs(request, network) ? 'decline' : 'ignored' }
    default:
      return { what: 'ignored' }
  }
}

/** The four states in which a client requests (§4.3.2), told apart as its table 4 does. */
function answerRequest(book: Book, network: Network, binding: Binding, request: Request, now: number): Outcome {
  if (!isForUs(request, network)) return { what: 'ignored' }
  const selecting = request.options.has(OPTION.serverId)
  const wanted = addressOption(request.options, OPTION.requestedAddress) ?? request.ciaddr
  if (wanted === 0) return { what: 'ignored' }
  if (wanted !== binding.address) return refuse(network, request, `your address is ${addressText(binding.address)}`)
  const known = book.lease(binding, now)
  if (!selecting && binding.endedAt > 0 && !(known && known.at > binding.endedAt)) {
    return refuse(network, request, 'the lease was ended')
  }
  const event = lease('active', network, binding, request, now)
  // Whoever asks twice a second gets two answers, but the second tells nobody anything new.
  const same = known?.expiresAt === event.expiresAt && known.hostname === event.hostname
  return { ...grant(TYPE.ack, network, binding, request), ...(!same && { event }) }
}

/** False when the client has chosen another server. */
function isForUs({ options }: Request, { gateway }: Network): boolean {
  return !options.has(OPTION.serverId) || addressOption(options, OPTION.serverId) === gateway
}

function grant(type: number, network: Network, binding: Binding, request: Request): Outcome {
  const seconds = network.leaseSeconds
  const times: [number, Buffer][] = [
    [OPTION.leaseTime, numberBytes(seconds, 4)],
    [OPTION.renewal, numberBytes(Math.floor(seconds / 2), 4)],
    [OPTION.rebinding, numberBytes(Math.floor((seconds * 7) / 8), 4)],
  ]
  const ack = type === TYPE.ack
  // Whoever has the address already is reached by it; everybody else has none yet that could be asked for by ARP.
  const to = ack && request.ciaddr === binding.address ? binding.address : BROADCAST
  return {
    what: ack ? 'ack' : 'offer',
    reply: reply(type, network, request, to, [...head(network, request), ...times], binding),
  }
}

const inform = (network: Network, binding: Binding, request: Request): Outcome => ({
  what: 'inform',
  reply: reply(TYPE.ack, network, request, binding.address, head(network, request), binding),
})

function refuse(network: Network, request: Request, why: string): Outcome {
  const options: [number, Buffer][] = [...head(network, request), [OPTION.message, Buffer.from(why, 'latin1')]]
  return { what: 'nak', reply: reply(TYPE.nak, network, request, BROADCAST, options) }
}

/** Who answers, and whom (RFC 6842). */
function head({ gateway }: Network, { options }: Request): [number, Buffer][] {
  const clientId = options.get(OPTION.clientId)
  return [
    [OPTION.serverId, addressBytes(gateway)],
    // One that was put together of parts cannot be sent back as it is, and is none of RFC 2132.
    ...(clientId && clientId.length > 0 && clientId.length <= 255
      ? [[OPTION.clientId, clientId] as [number, Buffer]]
      : []),
  ]
}

function reply(
  type: number,
  network: Network,
  request: Request,
  to: number,
  always: readonly [number, Buffer][],
  binding?: Binding,
): NonNullable<Outcome['reply']> {
  const told = binding === undefined ? [] : toldOf(network, binding, request)
  let room = roomFor(datagram(request)) - size(always)
  const fitting = told.filter((option) => {
    const fits = size([option]) <= room
    if (fits) room -= size([option])
    return fits
  })
  const bytes = writeReply({
    type,
    xid: request.xid,
    flags: request.flags,
    ciaddr: type === TYPE.ack ? request.ciaddr : 0,
    yiaddr: binding === undefined || request.type === TYPE.inform ? 0 : binding.address,
    mac: request.mac,
    options: [...always, ...fitting],
  })
  return { bytes, from: network.gateway, to }
}

/** What the client wants to know, in its order; but the mask comes before the router (RFC 2132 §3.3). */
function toldOf(network: Network, { hostname }: Binding, { options }: Request): [number, Buffer][] {
  const list = options.get(OPTION.parameterList)
  const asked = new Set(list === undefined ? USUAL : list)
  const codes = asked.has(OPTION.mask) ? new Set([OPTION.mask, ...asked]) : asked
  return Array.from(codes).flatMap((code): [number, Buffer][] => {
    const value =
      code === OPTION.hostname && hostname !== '' ? Buffer.from(hostname, 'latin1') : network.options.get(code)
    return value === undefined || value.length > 255 ? [] : [[code, value]]
  })
}

const size = (options: readonly (readonly [number, Uint8Array])[]): number =>
  options.reduce((sum, [, value]) => sum + 2 + value.length, 0)

function datagram({ options }: Request): number {
  const told = options.get(OPTION.largestMessage)
  const largest = told?.length === 2 ? told.readUInt16BE() : SMALLEST_DATAGRAM
  return Math.min(LARGEST_DATAGRAM, Math.max(SMALLEST_DATAGRAM, largest))
}

function lease(
  state: LeaseEvent['state'],
  network: Network,
  binding: Binding,
  request: Request,
  now: number,
): LeaseEvent {
  const { net, mac, address } = binding
  const seconds = Math.floor(now / 1000)
  return {
    ...{ net, mac, address: addressText(address), hostname: hostnameOf(request) || binding.hostname, state },
    expiresAt: state === 'active' ? seconds + network.leaseSeconds : seconds,
    at: now,
  }
}

/** As the client calls itself (RFC 2132 §3.14); '' when that is no host name. Some end it with a zero byte. */
function hostnameOf({ options }: Request): string {
  const text = options.get(OPTION.hostname)?.toString('latin1').replace(/\0+$/, '') ?? ''
  return HOSTNAME.test(text) ? text : ''
}
