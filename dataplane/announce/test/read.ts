/** Reads announcements as a neighbour does, and collects those that come in. */
import type { Tap } from '../../../test/frames.ts'
import { addressText, macText } from '../../netlink/inet.ts'

export interface Seen {
  form: 'request' | 'reply' | 'advertisement'
  address: string
  mac: string
  router?: boolean
  /** performance.now() when it was looked for. */
  at: number
}

/** Undefined for every other frame. Throws for one that a neighbour would not heed. */
export function readAnnouncement(frame: Buffer): Omit<Seen, 'at'> | undefined {
  const type = frame.readUInt16BE(12)
  if (type === 0x0806) return readArp(frame)
  return type === 0x86dd && frame[20] === 58 && frame[54] === 136 ? readAdvertisement(frame) : undefined
}

const text = (frame: Buffer, at: number, size: number) => addressText(frame.subarray(at, at + size))
const mac = (frame: Buffer, at: number) => macText(frame.subarray(at, at + 6)) ?? ''
const must = (holds: boolean, what: string) => {
  if (!holds) throw new Error(what)
}

function readArp(frame: Buffer): Omit<Seen, 'at'> | undefined {
  const [sender, target] = [text(frame, 28, 4), text(frame, 38, 4)]
  if (sender !== target) return undefined
  const form = frame.readUInt16BE(20) === 1 ? 'request' : 'reply'
  must(frame.subarray(0, 6).equals(Buffer.alloc(6, 0xff)), 'a gratuitous ARP goes to everybody')
  must(mac(frame, 6) === mac(frame, 22), 'the sender says its own MAC')
  must(form === 'request' || mac(frame, 32) === mac(frame, 22), 'a reply says it twice')
  return { form, address: sender, mac: mac(frame, 22) }
}

function readAdvertisement(frame: Buffer): Omit<Seen, 'at'> | undefined {
  const message = frame.subarray(54)
  const flags = message.readUInt8(4)
  // The answer to a question.
  if ((flags & 0x40) !== 0) return undefined
  must(mac(frame, 0) === '33:33:00:00:00:01' && text(frame, 38, 16) === 'ff02::1', 'it goes to all nodes')
  must(frame[21] === 255, 'its hop limit is 255')
  must(text(frame, 22, 16) === text(message, 8, 16), 'its source is its target')
  must((flags & 0x20) !== 0, 'it overrides')
  must(message[24] === 2 && message[25] === 1 && mac(message, 26) === mac(frame, 6), 'it says its MAC')
  must(sums(frame) === 0xffff, 'its checksum holds')
  return {
    form: 'advertisement',
    address: text(message, 8, 16),
    mac: mac(message, 26),
    router: (flags & 0x80) !== 0,
  }
}

/** The sum that a receiver makes: addresses, length, next header, message with its checksum in it (RFC 8200 section 8.1). */
function sums(frame: Buffer): number {
  let sum = frame.readUInt16BE(18) + 58
  for (let at = 22; at < frame.length; at += 2) sum += frame.readUInt16BE(at)
  while (sum > 0xffff) sum = (sum % 0x10000) + Math.floor(sum / 0x10000)
  return sum
}

export interface Ear {
  /** All announcements since it was opened, of one address if asked. */
  of(address?: string): Seen[]
  /** Resolves when `address` has been announced `times` times in all. Rejects after 20 s. */
  until(address: string, times: number): Promise<Seen[]>
}

/** A packet socket says once that its device went down (ENETDOWN). */
function framesOf(tap: Tap): Buffer[] {
  try {
    return tap.seen()
  } catch (error) {
    if (/receive: -100$/.test(String(error))) return []
    throw error
  }
}

export function listen(tap: Tap): Ear {
  const heard: Seen[] = []
  const of = (address?: string): Seen[] => {
    for (const frame of framesOf(tap)) {
      const seen = readAnnouncement(frame)
      if (seen) heard.push({ ...seen, at: performance.now() })
    }
    return heard.filter((one) => address === undefined || one.address === address)
  }
  return {
    of,
    async until(address, times) {
      const signal = AbortSignal.timeout(20_000)
      for (;;) {
        const found = of(address)
        if (found.length >= times) return found
        if (signal.aborted) throw new Error(`${address} was announced ${found.length} times, not ${times}`)
        await new Promise((wait) => setTimeout(wait, 5))
      }
    },
  }
}
