/** The records of ring buffer `events`: rules broken by workloads, told at most once a second each. */
import { type Codec, u32, u64 } from '../codec.ts'
import { ipv4, mac, u16 } from './layout.ts'
import { type ReasonName, reasonName } from './reason.ts'
import { struct } from './struct.ts'

const pair: Codec<[number, number]> = {
  size: 4,
  encode(into, at, [outer, inner]) {
    u16.encode(into, at, outer)
    u16.encode(into, at + 2, inner)
  },
  decode: (from, at) => [u16.decode(from, at), u16.decode(from, at + 2)],
}

/** struct violation_event */
export const violationEvent = struct<{
  time: bigint
  mac: string
  suppressed: bigint
  ifindex: number
  reason: number
  address: string
  vlans: [number, number]
}>('violation_event', 40, {
  time: [0, u64],
  mac: [8, mac],
  suppressed: [16, u64],
  ifindex: [24, u32],
  reason: [28, u32],
  address: [32, ipv4],
  vlans: [36, pair],
})

export interface Violation {
  /** Nanoseconds of CLOCK_MONOTONIC, which `process.hrtime.bigint()` reads. */
  time: bigint
  mac: string
  ifindex: number
  /** Undefined when a newer program gave a reason that this agent does not know. */
  reason: ReasonName | undefined
  /** Outer VLAN id, 0 without a tag. */
  vlan: number
  /** Of the second tag, 0 without one. */
  innerVlan: number
  /** Sender address of IPv4 or ARP, unless there was none. */
  address?: string
  /** How many of the same MAC, port and reason were not told since the last one that was. */
  suppressed: number
}

/** Reads a record of the ring buffer. Throws RangeError when it is shorter than the struct. */
export function decodeViolation(record: Buffer): Violation {
  const { time, mac, suppressed, ifindex, reason, address, vlans } = violationEvent.decode(record, 0)
  return {
    time,
    mac,
    ifindex,
    reason: reasonName(reason),
    vlan: vlans[0],
    innerVlan: vlans[1],
    ...(address !== '0.0.0.0' && { address }),
    suppressed: Number(suppressed),
  }
}
