/** The maps of bpf/src/shape.h and bpf/src/quota.h, typed. */
import { type Codec, u32, u64 } from '../bpf/codec.ts'
import type { BpfMap } from '../bpf/map.ts'
import type { BpfObject } from '../bpf/object.ts'
import { mac, safeInteger, u16 } from '../bpf/port/layout.ts'
import { struct } from '../bpf/port/struct.ts'

export interface ShapeRow {
  /** ifindex of the port without a net that the program saw the MAC at, 0 for none. */
  home: number
  interface: number
  near: number
  far: number
  up: number
  down: number
  slow: number
  /** Slot and 1. */
  quota: number
}
export const shapeRow = struct<ShapeRow>('shape', 28, {
  home: [0, u32],
  interface: [4, u32],
  near: [8, u32],
  far: [12, u32],
  up: [16, u16],
  down: [18, u16],
  slow: [20, u16],
  quota: [24, u32],
})

export interface CeilingRow {
  /** Bits a second. */
  rate: number
  debts: { up: bigint; down: bigint }
}
const debts: Codec<CeilingRow['debts']> = {
  size: 16,
  encode(into, at, { up, down }) {
    u64.encode(into, at, up)
    u64.encode(into, at + 8, down)
  },
  decode: (from, at) => ({ up: u64.decode(from, at), down: u64.decode(from, at + 8) }),
}
export const ceilingRow = struct<CeilingRow>('ceiling', 24, { rate: [0, safeInteger], debts: [8, debts] })

export interface QuotaEvent {
  used: number
  level: number
  slot: number
}
export const quotaEvent = struct<QuotaEvent>('quota_event', 16, {
  used: [0, safeInteger],
  level: [8, u32],
  slot: [12, u32],
})

export interface ShapingMaps {
  shapes: BpfMap<string, ShapeRow>
  ceilings: BpfMap<number, CeilingRow>
  quotas: BpfMap<number, bigint>
  clock: BpfMap<number, bigint>
  /** Descriptor of the ring buffer. */
  events: number
}

/** Valid until the object is closed. */
export const shapingMaps = (object: BpfObject): ShapingMaps => ({
  shapes: object.map('shapes', mac, shapeRow),
  ceilings: object.map('ceilings', u32, ceilingRow),
  quotas: object.map('quotas', u32, u64),
  clock: object.map('quota_clock', u32, u64),
  events: object.mapFd('quota_events'),
})
