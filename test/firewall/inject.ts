/** Packets into the real stack of a lane, from this thread, and which of them got through (dataplane/bpf/test/inject.bpf.c). */
import { fileURLToPath } from 'node:url'
import { type Codec, u32, u64 } from '../../dataplane/bpf/codec.ts'
import { attachTcxHere, type Link } from '../../dataplane/bpf/link.ts'
import { MappedArray } from '../../dataplane/bpf/mapped.ts'
import { openObject } from '../../dataplane/bpf/object.ts'
import { struct } from '../../dataplane/bpf/port/struct.ts'
import { sendLive } from '../../dataplane/bpf/test_run.ts'
import { EXIT, type Place, within } from './lane.ts'
import type { Packet } from './packets.ts'

const OBJECT = fileURLToPath(new URL('../../dataplane/bpf/test/inject.bpf.o', import.meta.url))

/** PACKETS of inject.bpf.c: how many can be loaded at a time. */
export const MOST_PACKETS = 65_536
/** Not less than FRAME of inject.bpf.c. */
const TEMPLATE = Buffer.alloc(128)

export interface Injector {
  /** Watches what leaves the lane, until `close`. */
  watch(lane: Place): void
  /** What is sent from now on, by its place in the list. */
  load(packets: readonly Packet[]): Promise<void>
  /** Sends each packet once by its own device; tells for each whether it got through. */
  sendOnce(lane: Place): boolean[]
  /**
   * Sends `count` packets in turn, all by `device`, whatever their own is; returns the CPU time of one in ns. Begins with
   * packet `first`.
   */
  send(lane: Place, count: number, device?: string, first?: number): number
  /** Sends all packets of each device `times` times. Returns how many that were. */
  repeat(lane: Place, times: number): number
  close(): Promise<void>
}

/** Resolves when the programs are loaded; needs root and Linux 5.18. */
export async function openInjector(): Promise<Injector> {
  const object = openObject(OBJECT)
  await object.load()
  const [specs, turns] = [object.map('specs', u32, spec), object.map('turns', u32, turn)]
  const seen = new MappedArray(object.map('seen', u32, u64))
  const [inject, arrived] = [object.program('inject'), object.program('arrived')]
  const links: Link[] = []
  /** Packets in the order of their devices; where those of each device stand in it. */
  let spans = new Map<string, { first: number; end: number }>()
  let loaded = 0

  /** CPU time in ns. */
  const run = (lane: Place, device: string, range: { next: number; first: number; end: number }, count: number) => {
    const ifindex = lane.index.get(device)
    if (ifindex === undefined) throw new Error(`no lane has a device ${device}`)
    turns.set(0, range)
    return within(lane, () => sendLive(inject.fd, { data: TEMPLATE, ifindex, count }))
  }

  return {
    watch(lane) {
      links.push(within(lane, () => attachTcxHere(arrived, lane.index.get(EXIT) ?? 0, 'egress')))
    },

    async load(packets) {
      if (packets.length > MOST_PACKETS) throw new RangeError(`${packets.length} packets, and room for ${MOST_PACKETS}`)
      const ordered = packets.map((packet, number) => ({ packet, number }))
      ordered.sort((a, b) =>
        a.packet.interface < b.packet.interface ? -1 : a.packet.interface > b.packet.interface ? 1 : 0,
      )
      spans = new Map()
      ordered.forEach(({ packet }, place) => {
        const span = spans.get(packet.interface)
        if (span) span.end = place + 1
        else spans.set(packet.interface, { first: place, end: place + 1 })
      })
      await specs.updateBatch(ordered.map((one, place) => [place, one] as const))
      loaded = packets.length
    },

    sendOnce(lane) {
      for (let n = 0; n < loaded; n++) seen.set(n, 0n)
      for (const [device, span] of spans) run(lane, device, { ...span, next: span.first }, span.end - span.first)
      return Array.from({ length: loaded }, (_, n) => {
        const count = seen.get(n)
        if (count > 1n) throw new Error(`packet ${n} got through ${count} times`)
        return count === 1n
      })
    },

    send: (lane, count, device = 'in0', first = 0) =>
      run(lane, device, { first: 0, end: loaded, next: first % loaded }, count) / count,

    repeat(lane, times) {
      for (const [device, span] of spans)
        run(lane, device, { ...span, next: span.first }, (span.end - span.first) * times)
      return loaded * times
    },

    async close() {
      for (const link of links) await link.close()
      seen.close()
      object.close()
    },
  }
}

/** struct turn of inject.bpf.c */
const turn = struct<{ next: number; first: number; end: number }>('turn', 16, {
  next: [0, u32],
  first: [4, u32],
  end: [8, u32],
})

/** struct spec of inject.bpf.c */
const spec: Codec<{ packet: Packet; number: number }> = {
  size: 64,
  encode(into, at, { packet, number }) {
    into.fill(0, at, at + 64)
    into[at] = packet.family
    into[at + 1] = packet.protocol
    into[at + 2] = packet.tos ?? 0
    into.writeUInt32LE(number, at + 4)
    into.write(packet.mac.replaceAll(':', ''), at + 8, 'hex')
    into.writeUInt16BE(packet.sourcePort, at + 14)
    packet.source.forEach((word, n) => void into.writeUInt32BE(word, at + 16 + 4 * n))
    packet.dest.forEach((word, n) => void into.writeUInt32BE(word, at + 32 + 4 * n))
    into.writeUInt16BE(packet.destPort, at + 48)
    into.writeUInt16BE(packet.ident, at + 50)
  },
  decode() {
    throw new Error('packets are only written')
  },
}
