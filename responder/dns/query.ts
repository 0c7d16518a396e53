/** Reads a request with strict bounds (RFC 1035 §4.1, 6891, 9619). Nothing in it is followed: names are not decompressed. */
import { MAX_NAME } from './names.ts'
import { TYPE } from './rdata.ts'

const HEADER = 12
const IN = 1
/** More than a request has reason to bring along. */
const MAX_RECORDS = 8

/** One object is used for all requests: valid until the next one is read. */
export interface Query {
  /** Lower case. */
  readonly name: Uint8Array
  nameSize: number
  type: number
  class: number
  /** Octets of header and question. */
  end: number
  /** An OPT record came. */
  edns: boolean
  version: number
  /** What the client takes over UDP. */
  udpSize: number
  secure: boolean
}

/** `name`: where names are written, of {@link MAX_NAME} octets. */
export function openQuery(name: Uint8Array): Query {
  return { name, nameSize: 0, type: 0, class: 0, end: 0, edns: false, version: 0, udpSize: 512, secure: false }
}

/** Reads the request of `length` octets at `at`, which has a whole header; false: it is malformed. */
export function readQuery(query: Query, bytes: Buffer, at: number, length: number): boolean {
  query.edns = false
  query.secure = false
  query.udpSize = 512
  const end = at + length
  // One question; no answers.
  if (bytes.readUInt16BE(at + 4) !== 1 || bytes.readUInt16BE(at + 6) !== 0) return false
  let place = readName(query, bytes, at + HEADER, end)
  if (place < 0 || place + 4 > end) return false
  query.type = bytes.readUInt16BE(place)
  query.class = bytes.readUInt16BE(place + 2)
  place += 4
  query.end = place - at
  // IXFR brings its SOA as authority (RFC 1995 §3).
  const authorities = bytes.readUInt16BE(at + 8)
  const additionals = bytes.readUInt16BE(at + 10)
  if (authorities + additionals > MAX_RECORDS) return false
  for (let n = 0; n < authorities + additionals; n++) {
    place = readRecord(query, bytes, place, end, n >= authorities)
    if (place < 0) return false
  }
  return place === end
}

/** Where the name ends; -1: it does not, or is compressed. */
function readName(query: Query, bytes: Buffer, from: number, end: number): number {
  const { name } = query
  let at = from
  let size = 0
  for (;;) {
    if (at >= end) return -1
    const label = bytes[at++] as number
    if (label > 63 || size + label + 1 > MAX_NAME || at + label > end) return -1
    name[size++] = label
    if (label === 0) break
    for (let n = 0; n < label; n++) {
      const octet = bytes[at++] as number
      name[size++] = octet >= 0x41 && octet <= 0x5a ? octet + 0x20 : octet
    }
    // Room for the root must be left.
    if (size >= MAX_NAME) return -1
  }
  query.nameSize = size
  return at
}

/** Where the record ends; -1: malformed. */
function readRecord(query: Query, bytes: Buffer, from: number, end: number, additional: boolean): number {
  const place = skipName(bytes, from, end)
  if (place < 0 || place + 10 > end) return -1
  const after = place + 10 + bytes.readUInt16BE(place + 8)
  if (after > end) return -1
  if (bytes.readUInt16BE(place) !== TYPE.OPT) return after
  // One, of the root, among the additional records.
  if (query.edns || !additional || place !== from + 1 || !areOptions(bytes, place + 10, after)) return -1
  query.edns = true
  query.udpSize = bytes.readUInt16BE(place + 2)
  query.version = bytes[place + 5] as number
  query.secure = ((bytes[place + 6] as number) & 0x80) !== 0
  return after
}

function skipName(bytes: Buffer, from: number, end: number): number {
  for (let at = from; at < end && at - from < MAX_NAME; ) {
    const label = bytes[at] as number
    if (label === 0) return at + 1
    if (label >= 0xc0) return at + 2
    if (label > 63) return -1
    at += label + 1
  }
  return -1
}

function areOptions(bytes: Buffer, from: number, end: number): boolean {
  let at = from
  while (at + 4 <= end) at += 4 + bytes.readUInt16BE(at + 2)
  return at === end
}

export function isInternet(query: Query): boolean {
  return query.class === IN
}
