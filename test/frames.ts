/**
 * Ethernet frames as they are, sent and seen by packet sockets inside the guests' namespaces (packet(7)). A capture sees a
 * frame before the programs of its own device judge it, so what passed is looked for at the other end.
 */
import { randomBytes } from 'node:crypto'
import { EAGAIN } from '../dataplane/errno.ts'
import { bind, close, inNamespace, receive, sendNow, socket } from '../dataplane/libc.ts'
import type { Netns, Scope } from './netns.ts'

const AF_PACKET = 17
const SOCK_RAW = 3
const SOCK_NONBLOCK = 0o4000
/** Every protocol, in network order. */
const ETH_P_ALL = 0x0300
const MSG_DONTWAIT = 0x40

const BROADCAST = 'ff:ff:ff:ff:ff:ff'
/** For local experiments (IEEE 802). */
const ETH_P_802_EX1 = 0x88b5
const ETH_P_8021Q = 0x8100

/** An end of a cable at which frames are sent and seen. */
export interface Tap {
  readonly mac: string
  send(frame: Buffer): void
  /** Frames that have come in since the last question. */
  seen(): Buffer[]
}

/** Opens the device `name` inside `ns`. */
export function tap(t: Scope, ns: Netns, name = 'eth0'): Tap {
  const [link] = JSON.parse(ns.run('ip', '-j', 'link', 'show', name)) as { ifindex: number; address: string }[]
  if (link === undefined) throw new Error(`${ns.name} has no ${name}`)
  const fd = inNamespace(ns.path, () => socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, ETH_P_ALL))
  t.teardown(() => close(fd))
  // struct sockaddr_ll
  const address = Buffer.alloc(20)
  address.writeUInt16LE(AF_PACKET, 0)
  address.writeUInt16LE(ETH_P_ALL, 2)
  address.writeInt32LE(link.ifindex, 4)
  bind(fd, address)
  const buffer = Buffer.alloc(65_536)
  return {
    mac: link.address,
    send: (frame) => sendNow(fd, frame),
    seen() {
      const frames: Buffer[] = []
      for (;;) {
        const size = receive(fd, buffer, MSG_DONTWAIT)
        if (size === -EAGAIN) return frames
        if (size < 0) throw new Error(`cannot receive: ${size}`)
        frames.push(Buffer.from(buffer.subarray(0, size)))
      }
    },
  }
}

export interface Header {
  to?: string
  from: string
  /** VLAN ids, outer first. */
  tags?: readonly number[]
  /** EtherType; default one for experiments. */
  type?: number
}

export const macBytes = (mac: string): Buffer => Buffer.from(mac.replaceAll(':', ''), 'hex')

/** An Ethernet frame, padded to the least size. */
export function frame({ to = BROADCAST, from, tags = [], type = ETH_P_802_EX1 }: Header, payload: Buffer): Buffer {
  const words = [...tags.flatMap((tag) => [ETH_P_8021Q, tag]), type]
  const middle = Buffer.alloc(words.length * 2)
  words.forEach((word, n) => void middle.writeUInt16BE(word, n * 2))
  const whole = Buffer.concat([macBytes(to), macBytes(from), middle, payload])
  return whole.length >= 60 ? whole : Buffer.concat([whole, Buffer.alloc(60 - whole.length)])
}

/**
 * Sends `header` from one end and says whether it arrives at the other. It is followed by `fence`, which must pass: when
 * that has arrived and the frame has not, it never will. Rejects when the fence does not arrive either.
 */
export async function arrives(
  from: Tap,
  to: Tap,
  header: Partial<Header>,
  fence: Partial<Header> = {},
): Promise<boolean> {
  const [mark, end] = [randomBytes(16), randomBytes(16)]
  to.seen()
  from.send(frame({ from: from.mac, ...header }, mark))
  from.send(frame({ from: from.mac, ...fence }, end))
  const signal = AbortSignal.timeout(10_000)
  let found = false
  for (;;) {
    for (const one of to.seen()) {
      if (one.includes(mark)) found = true
      if (one.includes(end)) return found
    }
    if (signal.aborted) throw new Error('the frame that marks the end did not arrive')
    await new Promise((wait) => setTimeout(wait, 1))
  }
}
