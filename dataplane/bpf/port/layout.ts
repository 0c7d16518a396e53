/**
 * Keys and values of the maps of br-work as bpf/src/maps.h declares them. Addresses and MACs are canonical text
 * (`10.0.0.5`, `02:ce:0a:00:00:05`), an address of `0.0.0.0` is none.
 */
import { addressBytes, addressText, macBytes, macText } from '../../netlink/inet.ts'
import { type Codec, u32, u64 } from '../codec.ts'
import { struct } from './struct.ts'

export const u16: Codec<number> = {
  size: 2,
  encode: (into, at, value) => void into.writeUInt16LE(value, at),
  decode: (from, at) => from.readUInt16LE(at),
}

/** A `__u64` below 2^53. */
export const safeInteger: Codec<number> = {
  size: 8,
  encode: (into, at, value) => void into.writeBigUInt64LE(BigInt(value), at),
  decode: (from, at) => Number(from.readBigUInt64LE(at)),
}

/** Four bytes as they stand in a packet. Encoding throws RangeError for anything but IPv4 text. */
export const ipv4: Codec<string> = {
  size: 4,
  encode(into, at, value) {
    const bytes = addressBytes(value)
    if (bytes.length !== 4) throw new RangeError(`not an IPv4 address: ${value}`)
    into.set(bytes, at)
  },
  decode: (from, at) => addressText(from.subarray(at, at + 4)),
}

/** A MAC in the low six bytes of a `__u64`. Encoding throws RangeError for anything but a MAC's text. */
export const mac: Codec<string> = {
  size: 8,
  encode(into, at, value) {
    into.set(macBytes(value), at)
    into.writeUInt16LE(0, at + 6)
  },
  // Six bytes always have a text.
  decode: (from, at) => macText(from.subarray(at, at + 6)) ?? '',
}

export interface EndpointKey {
  net: number
  mac: string
}
export const endpointKey = struct<EndpointKey>('endpoint_key', 12, { net: [0, u32], mac: [4, mac] })

export interface EndpointRow {
  /** The address that most of its packets bear. */
  address: string
  /** CLAIM_* of numbers.ts: which ports may become its home. */
  claims: number
  /** ifindex of its port: named, or 0 until the program has seen it. */
  home: number
  slot: number
}
export const endpointRow = struct<EndpointRow>('endpoint', 16, {
  address: [0, ipv4],
  claims: [4, u32],
  home: [8, u32],
  slot: [12, u32],
})

export interface LinkKey {
  net: number
  /** The last eight bytes of the address, the first of them lowest. */
  id: bigint
}
export const linkKey = struct<LinkKey>('link_key', 12, { net: [0, u32], id: [4, u64] })

export interface OutsideRow {
  /** Nanoseconds of CLOCK_MONOTONIC. */
  heard: bigint
  times: number
}
export const outsideRow = struct<OutsideRow>('outside', 16, { heard: [0, u64], times: [8, safeInteger] })

export interface AddressKey {
  net: number
  address: string
}
export const addressKey = struct<AddressKey>('address_key', 8, { net: [0, u32], address: [4, ipv4] })

export interface AddressRow {
  slot: number
  /** 1 for a routed address, else 0. */
  routed: number
}
export const addressRow = struct<AddressRow>('address', 8, { slot: [0, u32], routed: [4, u32] })

export interface FormerRow {
  net: number
  /** Of the lease. */
  address: string
}
export const formerRow = struct<FormerRow>('former', 8, { net: [0, u32], address: [4, ipv4] })

export interface PrefixKey {
  length: number
  address: string
}
export const prefixKey = struct<PrefixKey>('prefix', 8, { length: [0, u32], address: [4, ipv4] })

export interface NetRow {
  /** `0.0.0.0` for none. */
  gateway: string
  /** 0 for none. */
  vlan: number
  /** NET_* of numbers.ts. */
  flags: number
}
export const netRow = struct<NetRow>('net', 8, { gateway: [0, ipv4], vlan: [4, u16], flags: [6, u16] })

export interface HostRow {
  mac: string
  ifindex: number
}
export const hostRow = struct<HostRow>('host', 16, { mac: [0, mac], ifindex: [8, u32] })

export interface MacbindRow {
  /** 0 is every port, NO_DEVICE one that is away. */
  ifindex: number
  /** 0 is any. */
  vlan: number
  /** LOCK_* of numbers.ts. */
  lock: number
}
export const macbindRow = struct<MacbindRow>('macbind', 8, { ifindex: [0, u32], vlan: [4, u16], lock: [6, u16] })

export interface TenantNetRow {
  /** TENANT_BLOCKED of numbers.ts, or 0. */
  flags: number
  bucket: number
  /** Bits a second; 0 for no limit. */
  rate: number
}
export const tenantNetRow = struct<TenantNetRow>('tenant_net', 16, {
  flags: [0, u32],
  bucket: [4, u32],
  rate: [8, safeInteger],
})

export interface BucketRow {
  /** Nanoseconds of CLOCK_MONOTONIC. */
  up: bigint
  down: bigint
}
export const bucketRow = struct<BucketRow>('bucket', 16, { up: [0, u64], down: [8, u64] })

export interface ViolationKey {
  mac: string
  ifindex: number
  reason: number
}
export const violationKey = struct<ViolationKey>('violation_key', 16, {
  mac: [0, mac],
  ifindex: [8, u32],
  reason: [12, u32],
})

export interface ViolationRow {
  last: bigint
  suppressed: bigint
}
export const violationRow = struct<ViolationRow>('violation', 16, { last: [0, u64], suppressed: [8, u64] })
