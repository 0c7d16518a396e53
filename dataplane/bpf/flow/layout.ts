/** Rows of the maps of flows and of what MACs have sent and got, as bpf/src/flow.h and usage.h declare them. */
import { type Codec, u32 } from '../codec.ts'
import { ipv4, safeInteger, u16 } from '../port/layout.ts'
import { struct } from '../port/struct.ts'

const u8: Codec<number> = {
  size: 1,
  encode: (into, at, value) => void into.writeUInt8(value, at),
  decode: (from, at) => from.readUInt8(at),
}

/** Two values in a row, of the low end and of the high one. */
const both = (each: Codec<number>): Codec<[number, number]> => ({
  size: 2 * each.size,
  encode(into, at, [low, high]) {
    each.encode(into, at, low)
    each.encode(into, at + each.size, high)
  },
  decode: (from, at) => [each.decode(from, at), each.decode(from, at + each.size)],
})

/** Bytes of an address as it stands in a packet. */
const address = (size: number): Codec<Buffer> => ({
  size,
  encode: (into, at, value) => void into.set(value, at),
  decode: (from, at) => Buffer.from(from.subarray(at, at + size)),
})

interface FlowKey {
  /** net * 256 + IP protocol. */
  scope: number
  low: Buffer
  high: Buffer
  /** As they stand in the packet, so to be read the other way round. */
  lowPort: number
  highPort: number
}
export const flowKey4 = struct<FlowKey>('flow_key4', 16, {
  scope: [0, u32],
  low: [4, address(4)],
  high: [8, address(4)],
  lowPort: [12, u16],
  highPort: [14, u16],
})
export const flowKey6 = struct<FlowKey>('flow_key6', 40, {
  scope: [0, u32],
  lowPort: [4, u16],
  highPort: [6, u16],
  low: [8, address(16)],
  high: [24, address(16)],
})

export interface FlowRow {
  bytes: [number, number]
  packets: [number, number]
  first: number
  last: number
  tcp: [number, number]
  initiator: number
  inside: number
}
export const flowRow = struct<FlowRow>('flow', 48, {
  bytes: [0, both(safeInteger)],
  packets: [16, both(safeInteger)],
  first: [32, u32],
  last: [36, u32],
  tcp: [40, both(u8)],
  initiator: [42, u8],
  inside: [43, u8],
})

export interface UsageRow {
  upPackets: number
  upBytes: number
  downPackets: number
  downBytes: number
  born: number
  address: string
  home: number
}
export const usageRow = struct<UsageRow>('usage', 48, {
  upPackets: [0, safeInteger],
  upBytes: [8, safeInteger],
  downPackets: [16, safeInteger],
  downBytes: [24, safeInteger],
  born: [32, safeInteger],
  address: [40, ipv4],
  home: [44, u32],
})
