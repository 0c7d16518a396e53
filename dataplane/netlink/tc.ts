/**
 * Queueing disciplines and classes by rtnetlink (RTM_*QDISC, RTM_*TCLASS; linux/rtnetlink.h, linux/pkt_sched.h): HTB at the
 * root of a device, its classes, and a bfifo in each that is a leaf. Minor numbers are those of the one major.
 */
import { SHAPE_MAJOR } from '../shaping/numbers.ts'
import { Attributes, Payload } from './attribute.ts'
import type { Netlink } from './socket.ts'
import { type Message, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE } from './wire.ts'

export const RTM_NEWQDISC = 36
export const RTM_DELQDISC = 37
const RTM_GETQDISC = 38
export const RTM_NEWTCLASS = 40
const RTM_DELTCLASS = 41
const RTM_GETTCLASS = 42

const TC_H_ROOT = 0xffffffff
export const TCA_KIND = 1
export const TCA_OPTIONS = 2
const TCA_STATS2 = 7
const TCA_STATS_QUEUE = 3
const TCA_HTB_PARMS = 1
const TCA_HTB_INIT = 2
const TCA_HTB_RATE64 = 6
const TCA_HTB_CEIL64 = 7
/** TC_LINKLAYER_ETHERNET: the kernel then needs no table of rates. */
const ETHERNET = 1
/** struct tcmsg */
export const TC_HEADER = 20
/** struct tc_htb_opt: two tc_ratespec of 12 bytes, buffer, cbuffer, quantum, level, prio. */
const HTB_OPT = 44
/** linux/netlink.h */
const NLM_F_ECHO = 0x8
const UNSIGNED = 0xffffffff
/** A tick of the scheduler is so many nanoseconds (PSCHED_SHIFT of net/pkt_sched.h). */
const TICK_NS = 64
/** The kernel warns of a class without one, and computes it from the rate otherwise. */
const QUANTUM = 15_000

/** A class. Rates are bytes a second, at least 1; bursts bytes. */
export interface HtbClass {
  minor: number
  /** Minor number of the class that it lies in; 0 for none. */
  parent: number
  /** What it may always send. */
  rate: number
  /** What it may send with what others leave. */
  ceil: number
  /** Bytes at once at either. */
  burst: number
  ceilBurst: number
  /** Bytes that wait at most; absent for a class that others lie in. */
  queue?: number
}

/** What the kernel tells of a class: bursts as ticks, because bytes are lost in rounding. */
export interface ClassState {
  ifindex: number
  minor: number
  parent: number
  rate: number
  ceil: number
  burstTicks: number
  ceilBurstTicks: number
  /** Handle of the qdisc in it; 0 for none of ours. */
  leaf: number
  /** Packets that wait. */
  waiting: number
}

export interface QdiscState {
  ifindex: number
  handle: number
  parent: number
  kind: string
}

const handleOf = (minor: number): number => ((SHAPE_MAJOR << 16) | minor) >>> 0
/** Of the queue in a class: its own, so that it can be changed in place. */
export const leafHandle = (minor: number): number => ((minor + 1 + SHAPE_MAJOR) << 16) >>> 0

export const ticks = (bytes: number, rate: number): number =>
  Math.min(UNSIGNED, Math.ceil((bytes * 1e9) / rate / TICK_NS))

/** What names no class is sent at once. EEXIST where something else was put there. */
export function addHtb(ifindex: number): Message {
  const init = Buffer.alloc(20)
  init.writeUInt32LE(3, 0)
  init.writeUInt32LE(10, 4)
  const payload = tcHeader(ifindex, handleOf(0), TC_H_ROOT).text(TCA_KIND, 'htb')
  payload.nest(TCA_OPTIONS, () => payload.bytes(TCA_HTB_INIT, init))
  return { type: RTM_NEWQDISC, flags: NLM_F_CREATE | NLM_F_EXCL, payload: payload.finish() }
}

/** Makes a class what it shall be, whether it is there or not; its parent must be there, or the kernel takes the root. */
export function putClass(ifindex: number, it: HtbClass): Message[] {
  const { minor, parent, rate, ceil, burst, ceilBurst, queue } = it
  const options = Buffer.alloc(HTB_OPT)
  for (const [at, speed] of [
    [0, rate],
    [12, ceil],
  ] as const) {
    options.writeUInt8(ETHERNET, at + 1)
    options.writeUInt32LE(Math.min(UNSIGNED, speed), at + 8)
  }
  options.writeUInt32LE(ticks(burst, rate), 24)
  options.writeUInt32LE(ticks(ceilBurst, ceil), 28)
  options.writeUInt32LE(QUANTUM, 32)
  const payload = tcHeader(ifindex, handleOf(minor), handleOf(parent)).text(TCA_KIND, 'htb')
  payload.nest(TCA_OPTIONS, () => {
    payload.bytes(TCA_HTB_PARMS, options)
    if (rate >= UNSIGNED) payload.bytes(TCA_HTB_RATE64, wide(rate))
    if (ceil >= UNSIGNED) payload.bytes(TCA_HTB_CEIL64, wide(ceil))
  })
  const made: Message = { type: RTM_NEWTCLASS, flags: NLM_F_CREATE, payload: payload.finish() }
  return queue === undefined ? [made] : [made, putQueue(ifindex, minor, queue)]
}

function putQueue(ifindex: number, minor: number, bytes: number): Message {
  const limit = Buffer.alloc(4)
  limit.writeUInt32LE(bytes)
  const payload = tcHeader(ifindex, leafHandle(minor), handleOf(minor))
    .text(TCA_KIND, 'bfifo')
    .bytes(TCA_OPTIONS, limit)
  return { type: RTM_NEWQDISC, flags: NLM_F_CREATE | NLM_F_REPLACE, payload: payload.finish() }
}

/** What waits in the class is lost. EBUSY while others lie in it, ENOENT when there is none. */
export function deleteClass(ifindex: number, minor: number): Message {
  return { type: RTM_DELTCLASS, flags: 0, payload: tcHeader(ifindex, handleOf(minor), 0).finish() }
}

/** A question for {@link Netlink.askEach}. The kernel answers whoever listens, and the asker only where it says so. */
export function askClass(ifindex: number, minor: number): Message {
  return { type: RTM_GETTCLASS, flags: NLM_F_ECHO, payload: tcHeader(ifindex, handleOf(minor), 0).finish() }
}

/** All classes of a device; none where it is gone. */
export function listClasses(netlink: Netlink, ifindex: number): Promise<ClassState[]> {
  return netlink.dump(RTM_GETTCLASS, tcHeader(ifindex, 0, 0).finish(), ({ type, payload }) =>
    type === RTM_NEWTCLASS ? decodeClass(payload) : undefined,
  )
}

/** All queueing disciplines of the namespace. */
export function listQdiscs(netlink: Netlink): Promise<QdiscState[]> {
  return netlink.dump(RTM_GETQDISC, tcHeader(0, 0, 0).finish(), ({ type, payload }) =>
    type === RTM_NEWQDISC
      ? { ...place(payload), kind: new Attributes(payload, TC_HEADER).text(TCA_KIND) ?? '' }
      : undefined,
  )
}

/** Reads the payload of RTM_NEWTCLASS; undefined for a class of another kind than HTB. Throws WireError. */
export function decodeClass(payload: Buffer): ClassState | undefined {
  const attributes = new Attributes(payload, TC_HEADER)
  const options = attributes.nested(TCA_OPTIONS)
  const parms = options?.bytes(TCA_HTB_PARMS)
  if (attributes.text(TCA_KIND) !== 'htb' || options === undefined || parms === undefined) return undefined
  if (parms.length < HTB_OPT) return undefined
  const { ifindex, handle, parent } = place(payload)
  const queue = attributes.nested(TCA_STATS2)?.bytes(TCA_STATS_QUEUE)
  return {
    ifindex,
    minor: handle & 0xffff,
    parent: parent === TC_H_ROOT ? 0 : parent & 0xffff,
    rate: narrow(options.bytes(TCA_HTB_RATE64)) ?? parms.readUInt32LE(8),
    ceil: narrow(options.bytes(TCA_HTB_CEIL64)) ?? parms.readUInt32LE(20),
    burstTicks: parms.readUInt32LE(24),
    ceilBurstTicks: parms.readUInt32LE(28),
    leaf: payload.readUInt32LE(16),
    waiting: queue?.readUInt32LE(0) ?? 0,
  }
}

function place(payload: Buffer): { ifindex: number; handle: number; parent: number } {
  return { ifindex: payload.readInt32LE(4), handle: payload.readUInt32LE(8), parent: payload.readUInt32LE(12) }
}

/** Begins a message; `info` is what filters have besides (priority and protocol). */
export function tcHeader(ifindex: number, handle: number, parent: number, info = 0): Payload {
  const bytes = Buffer.alloc(TC_HEADER)
  bytes.writeInt32LE(ifindex, 4)
  bytes.writeUInt32LE(handle >>> 0, 8)
  bytes.writeUInt32LE(parent >>> 0, 12)
  bytes.writeUInt32LE(info >>> 0, 16)
  return new Payload().raw(bytes)
}

function wide(value: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}

const narrow = (bytes: Buffer | undefined): number | undefined =>
  bytes?.length === 8 ? Number(bytes.readBigUInt64LE()) : undefined
