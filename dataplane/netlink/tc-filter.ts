/**
 * Filters of `clsact` by rtnetlink (RTM_*TFILTER; linux/pkt_cls.h): BPF programs in direct-action mode at ingress and
 * egress of a device. They stay without whoever made them. Every kernel has them, those without tcx (before 6.6) too.
 */
import { Attributes, WireError } from './attribute.ts'
import type { Netlink } from './socket.ts'
import { RTM_DELQDISC, RTM_NEWQDISC, TC_HEADER, TCA_KIND, TCA_OPTIONS, tcHeader } from './tc.ts'
import { type Message, NLM_F_CREATE, NLM_F_EXCL, type Received } from './wire.ts'

const RTM_NEWTFILTER = 44
const RTM_DELTFILTER = 45
const RTM_GETTFILTER = 46
const RTM_NEWCHAIN = 100
const RTM_DELCHAIN = 101

/** linux/pkt_sched.h: TC_H_CLSACT, its handle, and the two sides of it. */
const TC_H_CLSACT = 0xfffffff1
const CLSACT_HANDLE = 0xffff0000
const SIDES = { ingress: 0xfffffff2, egress: 0xfffffff3 } as const
const TCA_BPF_FD = 6
const TCA_BPF_NAME = 7
const TCA_BPF_FLAGS = 8
const TCA_BPF_ID = 11
const TCA_BPF_FLAG_ACT_DIRECT = 1
/** ETH_P_ALL in network order, as a little-endian machine reads it. */
const EVERY_PROTOCOL = 0x0300

export type Side = keyof typeof SIDES

/** Where a filter stands; priorities are met in ascending order, and of those with one priority only the handle tells them apart. */
export interface FilterPlace {
  ifindex: number
  side: Side
  priority: number
  handle: number
}

/** A filter that the kernel has. `name` and `programId` are those of a BPF filter, and absent for any other. */
export interface FilterState extends FilterPlace {
  name?: string
  programId?: number
}

/** EEXIST where the place is taken, by `clsact` or by `ingress`. */
export function addClsact(ifindex: number): Message {
  const payload = tcHeader(ifindex, CLSACT_HANDLE, TC_H_CLSACT).text(TCA_KIND, 'clsact').finish()
  return { type: RTM_NEWQDISC, flags: NLM_F_CREATE | NLM_F_EXCL, payload }
}

/** Takes every filter in it along. */
export function deleteClsact(ifindex: number): Message {
  return { type: RTM_DELQDISC, flags: 0, payload: tcHeader(ifindex, CLSACT_HANDLE, TC_H_CLSACT).finish() }
}

/** Puts a program (its descriptor) at a place, instead of the one that is there: every packet meets the one or the other. */
export function putFilter(place: FilterPlace, name: string, fd: number): Message {
  const payload = header(place).text(TCA_KIND, 'bpf')
  payload.nest(TCA_OPTIONS, () => {
    payload.u32(TCA_BPF_FD, fd).text(TCA_BPF_NAME, name).u32(TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT)
  })
  return { type: RTM_NEWTFILTER, flags: NLM_F_CREATE, payload: payload.finish() }
}

/** ENOENT when there is none, EINVAL without `clsact`, ENODEV without the device. */
export function deleteFilter(place: FilterPlace): Message {
  return { type: RTM_DELTFILTER, flags: 0, payload: header(place).text(TCA_KIND, 'bpf').finish() }
}

/** All filters of one side of a device; none where it has no `clsact` or is gone. */
export function listFilters(netlink: Netlink, ifindex: number, side: Side): Promise<FilterState[]> {
  const payload = tcHeader(ifindex, 0, SIDES[side]).finish()
  return netlink.dump(RTM_GETTFILTER, payload, (message) => decodeFilter(message, ifindex, side))
}

/** Whether a notification may concern what stands at `clsact` of a device. */
export function concernsFilters({ type, payload }: Received): boolean {
  if (type === RTM_NEWQDISC || type === RTM_DELQDISC) return payload.readUInt32LE(12) === TC_H_CLSACT
  return FILTER_MESSAGES.has(type)
}
const FILTER_MESSAGES: ReadonlySet<number> = new Set([RTM_NEWTFILTER, RTM_DELTFILTER, RTM_NEWCHAIN, RTM_DELCHAIN])

function header({ ifindex, side, priority, handle }: FilterPlace) {
  return tcHeader(ifindex, handle, SIDES[side], priority * 0x10000 + EVERY_PROTOCOL)
}

function decodeFilter({ type, payload }: Received, ifindex: number, side: Side): FilterState | undefined {
  if (type !== RTM_NEWTFILTER) return undefined
  if (payload.length < TC_HEADER) throw new WireError('filter without a header')
  // Each priority is told once by itself, with handle 0.
  const handle = payload.readUInt32LE(8)
  if (payload.readInt32LE(4) !== ifindex || handle === 0) return undefined
  const attributes = new Attributes(payload, TC_HEADER)
  const options = attributes.text(TCA_KIND) === 'bpf' ? attributes.nested(TCA_OPTIONS) : undefined
  const [name, programId] = [options?.text(TCA_BPF_NAME), options?.u32(TCA_BPF_ID)]
  return {
    ...{ ifindex, side, handle, priority: payload.readUInt32LE(16) >>> 16 },
    ...(name !== undefined && { name }),
    ...(programId !== undefined && { programId }),
  }
}
