/** Reads the maps of flows. A million rows are read in some seconds, so each is looked at as bytes before it becomes text. */
import { addressText } from '../../netlink/inet.ts'
import { FLOW_CLOCK_BITS } from '../../numbers.ts'
import type { Chunk } from '../batch.ts'
import { flowKey4, flowKey6, flowRow } from './layout.ts'
import { type FlowState, flowState, UNIT_MS } from './state.ts'

/** `src` is the end that began, `in` is what went towards the workload. Bytes are those on the wire without FCS. */
export interface Flow {
  /** The same as long as the flow lasts, and no other's. */
  id: string
  srcIp: string
  dstIp: string
  /** 0 for protocols without. */
  srcPort: number
  dstPort: number
  /** IP protocol number. */
  protocol: number
  bytesIn: number
  bytesOut: number
  packetsIn: number
  packetsOut: number
  /** Milliseconds of Unix time. */
  start: number
  last: number
  state: FlowState
}

/** What a flow must be to be told of; what is left out is any. */
export interface FlowFilter {
  state?: FlowState | undefined
  /** IP protocol number. */
  protocol?: number | undefined
  /** Of either end, canonical text. */
  ip?: string | undefined
  /** Of either end. */
  port?: number | undefined
}

/** An instant by CLOCK_MONOTONIC in ns, and in ms of Unix time when that clock was 0. */
export interface Instant {
  monotonic: bigint
  start: number
}

/** Rows a turn: what becomes of them must take far less than 20 ms. */
export const FLOWS_A_TURN = 1024

const KEYS = {
  4: { size: flowKey4.size, low: 4, high: 8, ports: 12, length: 4 },
  6: { size: flowKey6.size, low: 8, high: 24, ports: 4, length: 16 },
} as const

/** Four bytes that stand aligned: a view of the whole costs less than to read each through the Buffer. */
const wordsOf = ({ buffer, byteOffset, length }: Buffer) => new Uint32Array(buffer, byteOffset, length >> 2)
const number64 = (words: Uint32Array, at: number) => (words[at] ?? 0) + (words[at + 1] ?? 0) * 2 ** 32

function addressAt(from: Buffer, at: number, length: number): string {
  // What `addressText` answers, at a quarter of its price.
  if (length === 4) return `${from[at]}.${from[at + 1]}.${from[at + 2]}.${from[at + 3]}`
  return addressText(from.subarray(at, at + length))
}

/** The flows of a chunk that are what the filter asks for, and not long over. */
export function decodeFlows(
  family: 4 | 6,
  { keys, values, count }: Chunk,
  { monotonic, start }: Instant,
  filter: FlowFilter,
): Flow[] {
  const { size, low, high, ports, length } = KEYS[family]
  const now = Number(monotonic >> BigInt(FLOW_CLOCK_BITS))
  const flows: Flow[] = []
  const words = wordsOf(values)
  /** Units since an instant; of one that comes a tick before it is known, none. */
  const since = (unit: number) => {
    const age = (now - unit) >>> 0
    return age > 2 ** 31 ? 0 : age
  }
  for (let n = 0; n < count; n++) {
    const [key, value] = [n * size, n * flowRow.size]
    const protocol = keys[key] ?? 0
    if (filter.protocol !== undefined && filter.protocol !== protocol) continue
    const portOf = [keys.readUInt16BE(key + ports), keys.readUInt16BE(key + ports + 2)] as const
    if (filter.port !== undefined && !portOf.includes(filter.port)) continue
    const word = value >> 2
    const packets = [number64(words, word + 4), number64(words, word + 6)] as const
    const age = since(words[word + 9] ?? 0)
    const state = flowState({
      protocol,
      answered: packets[0] > 0 && packets[1] > 0,
      tcp: [values[value + 40] ?? 0, values[value + 41] ?? 0],
      age: age * UNIT_MS,
    })
    if (state === undefined || (filter.state !== undefined && filter.state !== state)) continue
    const ends = [addressAt(keys, key + low, length), addressAt(keys, key + high, length)] as const
    if (filter.ip !== undefined && !ends.includes(filter.ip)) continue
    const first = words[word + 8] ?? 0
    // One bit each: which end it is.
    const from = ((values[value + 42] ?? 0) & 1) as 0 | 1
    const inside = ((values[value + 43] ?? 0) & 1) as 0 | 1
    const [to, outside] = [(1 - from) as 0 | 1, (1 - inside) as 0 | 1]
    const bytes = [number64(words, word), number64(words, word + 2)] as const
    flows.push({
      id: idOf(keys, key, size, first),
      srcIp: ends[from],
      dstIp: ends[to],
      srcPort: portOf[from],
      dstPort: portOf[to],
      protocol,
      bytesIn: bytes[outside],
      bytesOut: bytes[inside],
      packetsIn: packets[outside],
      packetsOut: packets[inside],
      start: Math.floor(start + (now - since(first)) * UNIT_MS),
      last: Math.floor(start + (now - age) * UNIT_MS),
      state,
    })
  }
  return flows
}

/** Of numbers above 2^31 `toString(16)` takes ten times as long. */
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))
const hex = (word: number) =>
  `${HEX[word >>> 24]}${HEX[(word >>> 16) & 255]}${HEX[(word >>> 8) & 255]}${HEX[word & 255]}`

/** Two FNV-1a hashes of the key and the instant at which it began, with different starts: 64 bits. */
function idOf(keys: Buffer, at: number, size: number, first: number): string {
  let [a, b] = [0x811c9dc5 ^ first, 0x050c5d1f ^ first]
  for (let n = at; n < at + size; n++) {
    const byte = keys[n] ?? 0
    a = Math.imul(a ^ byte, 0x01000193)
    b = Math.imul(b ^ byte, 0x0100019d)
  }
  return hex(a) + hex(b)
}
