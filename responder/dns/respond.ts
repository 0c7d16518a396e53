/**
 * A request to an answer, octets to octets. What was answered before is copied from the cache: header and question of the
 * request, in the letters that it used, then the body that is kept, then OPT.
 */
import { type Answer, answer, type Parts, RCODE } from './answer.ts'
import { TooLarge } from './body.ts'
import { CACHED, openCache } from './cache.ts'
import { type Counters, newCounters } from './counters.ts'
import { type Limits, openBuckets, openMeter, openPrefixes } from './limits.ts'
import { MAX_NAME } from './names.ts'
import { isInternet, openQuery, readQuery } from './query.ts'
import { TYPE } from './rdata.ts'

const HEADER = 12
const OPT_SIZE = 11
/** Fits any path without fragments (DNS flag day 2020). */
const MAX_UDP = 1232
const SMALL = 512
const MAX_TCP = 65_535
/** Of IPv4 and UDP, which go with every answer. */
const PACKET_HEADERS = 28
const LOOPBACK = 127

/** Of the second 16 bits of a header. */
const QR = 0x8000
const OPCODE = 0x7800
const AA = 0x0400
const TC = 0x0200
/** What an answer repeats: RD and CD. */
const REPEATED = 0x0110

/** In front of the name in a key of the cache: view (4), type (2), DO (1). */
const KEY_HEAD = 7

export interface Request {
  bytes: Buffer
  at: number
  length: number
  /** Where `bytes` of the client's address, 4 or 16 octets, begin. */
  source: Buffer
  sourceAt: number
  sourceSize: number
  overTcp: boolean
}

export interface Responder {
  /** Writes the answer to `reply` at `into`, where there is room for what the transport may carry; its length, 0: none. */
  respond(request: Request, reply: Buffer, into: number): number
  counters: Counters
}

export interface ResponderOptions extends Parts {
  limits: Limits
  /** Seconds since the epoch. */
  now(): number
  /** Milliseconds of a clock that never goes back. */
  ticks(): number
  /** A mistake of ours; the client got SERVFAIL. */
  onError(error: unknown): void
}

export function openResponder({ limits, now, ticks, onError, ...parts }: ResponderOptions): Responder {
  const cache = openCache()
  const key = new Uint8Array(KEY_HEAD + MAX_NAME)
  // The name is read to its place in the key.
  const query = openQuery(key.subarray(KEY_HEAD))
  const prefixOf = openPrefixes()
  const all = { udp: openBuckets(limits.signatures, ticks, 1), tcp: openBuckets(limits.signatures, ticks, 1) }
  const signatures = openBuckets(limits.prefixSignatures, ticks)
  const large = openBuckets(limits.largeAnswers, ticks)
  const meter = openMeter(limits.octets, ticks)
  /** The question of the request at hand could be read. */
  let understood = false
  const counters = newCounters()
  return { respond, counters }

  function respond(request: Request, reply: Buffer, into: number): number {
    const { bytes, at, length } = request
    if (length < HEADER || ((bytes[at + 2] as number) & 0x80) !== 0) {
      counters.dropped++
      return 0
    }
    understood = false
    if (request.overTcp) {
      counters.tcp++
      return whole(request, reply, into)
    }
    counters.udp++
    return metered(request, reply, into, whole(request, reply, into))
  }

  function whole(request: Request, reply: Buffer, into: number): number {
    try {
      return answered(request, reply, into)
    } catch (error) {
      if (!(error instanceof TooLarge)) onError(error)
      return failed(request, reply, into, RCODE.SERVFAIL)
    }
  }

  /** What goes to the node itself harms nobody else. */
  function metered(request: Request, reply: Buffer, into: number, size: number): number {
    const { source, sourceAt, sourceSize } = request
    if (sourceSize === 4 && source[sourceAt] === LOOPBACK) return size
    const fate = meter(prefixOf(source, sourceAt, sourceSize), size + PACKET_HEADERS)
    if (fate === 'sent') return size
    counters.limited++
    if (fate === 'dropped' || !understood) return 0
    counters.truncated++
    return withoutBody(request, reply, into, RCODE.NOERROR, TC)
  }

  function answered(request: Request, reply: Buffer, into: number): number {
    const { bytes, at, length } = request
    if ((bytes.readUInt16BE(at + 2) & OPCODE) !== 0) return bare(request, reply, into, RCODE.NOTIMP)
    understood = readQuery(query, bytes, at, length)
    if (!understood) return bare(request, reply, into, RCODE.FORMERR)
    if (query.edns && query.version !== 0) return failed(request, reply, into, RCODE.BADVERS)
    if (!isInternet(query) || query.type === TYPE.AXFR || query.type === TYPE.IXFR) {
      return failed(request, reply, into, RCODE.REFUSED)
    }
    const view = parts.zones.views.of(request.source, request.sourceAt, request.sourceSize)
    const size = keyOf(view?.id ?? 0)
    const hash = hashOf(size)
    const found = cache.find(key, size, hash, now)
    if (found >= 0) return cached(request, reply, into, found)
    return made(request, reply, into, size, hash, view)
  }

  function keyOf(view: number): number {
    const { nameSize, type } = query
    key[0] = view >>> 24
    key[1] = view >>> 16
    key[2] = view >>> 8
    key[3] = view
    key[4] = type >> 8
    key[5] = type
    key[6] = query.secure ? 1 : 0
    return KEY_HEAD + nameSize
  }

  /** FNV-1a with a seed, and its high bits mixed in. */
  function hashOf(size: number): number {
    let hash = cache.seed
    for (let n = 0; n < size; n++) hash = Math.imul(hash ^ (key[n] as number), 0x01000193)
    return hash ^ (hash >>> 15)
  }

  function cached(request: Request, reply: Buffer, into: number, place: number): number {
    const { block } = cache
    const body = place + CACHED.key + block.readUInt16LE(place + CACHED.keySize)
    const size = block.readUInt16LE(place + CACHED.bodySize)
    if (!fits(request, size)) return truncated(request, reply, into)
    const header = place + CACHED.header
    reply[into + 2] = block[header] as number
    reply[into + 3] = block[header + 1] as number
    for (let n = 6; n < HEADER; n++) reply[into + n] = block[header + n - 4] as number
    count((block[header + 1] as number) & 0xf)
    return finish(request, reply, into, block, body, size)
  }

  function made(
    request: Request,
    reply: Buffer,
    into: number,
    size: number,
    hash: number,
    view: Parameters<typeof answer>[1]['view'],
  ): number {
    counters.made++
    const name = Buffer.from(key.buffer, KEY_HEAD, query.nameSize).toString('latin1')
    const question = { name, type: query.type, secure: query.secure, view }
    const fresh = answer(parts, question, () => maySign(request))
    if (fresh === undefined) {
      counters.limited++
      return request.overTcp ? failed(request, reply, into, RCODE.SERVFAIL) : truncated(request, reply, into)
    }
    const { zone } = fresh
    if (zone === undefined) return failed(request, reply, into, fresh.rcode)
    cache.add(key, size, hash, { ...fresh, zone })
    if (!fits(request, fresh.body.length)) return truncated(request, reply, into)
    writeHeader(reply, into, fresh)
    count(fresh.rcode)
    return finish(request, reply, into, fresh.body, 0, fresh.body.length)
  }

  /** Forged addresses cannot make us sign more than a part of the time; real resolvers come back over TCP. */
  function maySign({ source, sourceAt, sourceSize, overTcp }: Request): boolean {
    return signatures.take(prefixOf(source, sourceAt, sourceSize)) && (overTcp ? all.tcp : all.udp).take(0)
  }

  function fits(request: Request, body: number): boolean {
    const size = query.end + body + (query.edns ? OPT_SIZE : 0)
    if (request.overTcp) return size <= MAX_TCP
    if (size > Math.min(MAX_UDP, Math.max(SMALL, query.udpSize))) return false
    if (size <= SMALL) return true
    const may = large.take(prefixOf(request.source, request.sourceAt, request.sourceSize))
    if (!may) counters.limited++
    return may
  }

  /** Puts what is of this request around a body whose header is written. */
  function finish(request: Request, reply: Buffer, into: number, body: Buffer, from: number, size: number): number {
    const { bytes, at } = request
    reply[into] = bytes[at] as number
    reply[into + 1] = bytes[at + 1] as number
    reply[into + 2] = (reply[into + 2] as number) | ((bytes[at + 2] as number) & (REPEATED >> 8))
    reply[into + 3] = (reply[into + 3] as number) | ((bytes[at + 3] as number) & (REPEATED & 0xff))
    reply[into + 4] = 0
    reply[into + 5] = 1
    let end = into + HEADER
    for (let n = HEADER; n < query.end; n++) reply[end++] = bytes[at + n] as number
    if (size > 64) body.copy(reply, end, from, from + size)
    else for (let n = 0; n < size; n++) reply[end + n] = body[from + n] as number
    end += size
    return (query.edns ? writeOpt(reply, end, into, 0) : end) - into
  }

  /** Counted as one more additional record. */
  function writeOpt(reply: Buffer, at: number, into: number, extended: number): number {
    reply.writeUInt16BE(reply.readUInt16BE(into + 10) + 1, into + 10)
    reply[at] = 0
    reply[at + 1] = 0
    reply[at + 2] = TYPE.OPT
    reply[at + 3] = MAX_UDP >> 8
    reply[at + 4] = MAX_UDP & 0xff
    reply[at + 5] = extended
    reply[at + 6] = 0
    reply[at + 7] = query.secure ? 0x80 : 0
    reply[at + 8] = 0
    reply[at + 9] = 0
    reply[at + 10] = 0
    return at + OPT_SIZE
  }

  function truncated(request: Request, reply: Buffer, into: number): number {
    if (request.overTcp) return failed(request, reply, into, RCODE.SERVFAIL)
    counters.truncated++
    count(RCODE.NOERROR)
    return withoutBody(request, reply, into, RCODE.NOERROR, AA | TC)
  }

  /** Only the question, which has been read, and a code. */
  function failed(request: Request, reply: Buffer, into: number, rcode: number): number {
    count(rcode)
    return withoutBody(request, reply, into, rcode, 0)
  }

  function withoutBody(request: Request, reply: Buffer, into: number, rcode: number, flags: number): number {
    reply.fill(0, into, into + HEADER)
    reply.writeUInt16BE(QR | flags | (rcode & 0xf), into + 2)
    const length = finish(request, reply, into, cache.block, 0, 0)
    if (rcode > 0xf && query.edns) reply[into + length - OPT_SIZE + 5] = rcode >> 4
    return length
  }

  /** Header only: the question could not be read. */
  function bare({ bytes, at }: Request, reply: Buffer, into: number, rcode: number): number {
    count(rcode)
    reply.fill(0, into, into + HEADER)
    bytes.copy(reply, into, at, at + 2)
    reply.writeUInt16BE(QR | (bytes.readUInt16BE(at + 2) & (OPCODE | REPEATED)) | rcode, into + 2)
    return HEADER
  }

  function count(rcode: number): void {
    if (rcode === RCODE.NOERROR) counters.noerror++
    else if (rcode === RCODE.NXDOMAIN) counters.nxdomain++
    else if (rcode === RCODE.REFUSED) counters.refused++
    else if (rcode === RCODE.FORMERR) counters.formerr++
    else if (rcode === RCODE.SERVFAIL) counters.servfail++
    else counters.other++
  }
}

function writeHeader(reply: Buffer, into: number, answer: Answer): void {
  reply.writeUInt16BE((answer.authoritative ? 0x8400 : QR) | answer.rcode, into + 2)
  reply.writeUInt16BE(answer.answers, into + 6)
  reply.writeUInt16BE(answer.authorities, into + 8)
  reply.writeUInt16BE(answer.additionals, into + 10)
}
