/**
 * Tells the neighbours where addresses that move between nodes are now. Without that, whoever talked to the node that had
 * the address before goes on sending there, until it forgets by itself.
 *
 * An address is told five times over two seconds from when it is on its device, and again when the device gets its carrier
 * back or another MAC: what was sent before reached nobody, or says what is no longer so. Nothing is sent for an address that
 * has been given back. The frames go out a few at a time, so that a thousand addresses flood neither the network nor
 * the event loop, and no change waits for them.
 */
import { close as closeFile, KernelError, sendTo, socket } from '../libc.ts'
import { confValue } from '../netlink/devconf.ts'
import { addressBytes } from '../netlink/inet.ts'
import { decodeLink, type Link, RTM_DELLINK, RTM_NEWLINK } from '../netlink/link.ts'
import type { LinkDetail } from '../netlink/link-detail.ts'
import type { Received } from '../netlink/wire.ts'
import { ETH_P_ARP, ETH_P_IPV6, gratuitousArp, neighbourAdvertisement } from './frames.ts'

/** linux/if_packet.h, include/linux/socket.h */
const AF_PACKET = 17
const AF_BRIDGE = 7
const SOCK_RAW = 3
const SOCK_CLOEXEC = 0o2000000

const ROUNDS = 5
const ROUND_MS = 500
/** Of the loopback, where there is nobody. */
const NO_MAC = '00:00:00:00:00:00'
/** So many frames a beat, which take some 3 ms: 1000 addresses are told in a third of a second. */
const FRAMES_A_BEAT = 64
const BEAT_MS = 20

/** An address on a device. */
export interface Claim {
  /** Tells claims apart. */
  key: string
  link: string
  /** With or without a prefix length. */
  address: string
}

export interface AnnouncerParts {
  /** The links of these names, in the same order. */
  look(names: readonly string[]): Promise<(LinkDetail | undefined)[]>
  onProblem(error: unknown): void
}

export interface Announcer {
  /** The address is in force. One that is being told already is not told more often. */
  claim(claim: Claim): void
  release(key: string): void
  /** These are in force and no others. Those of the first call were before the agent began, so they are told only once. */
  adopt(claims: readonly Claim[]): void
  /** A notification about a link; others are not looked at. */
  hear(message: Received): void
  close(): void
}

interface Telling extends Claim {
  left: number
  due: number
}

type Carrier = Pick<Link, 'running' | 'mac'>

/** Sends in the network namespace of the calling thread at the time of the first frame. */
export function openAnnouncer({ look, onProblem }: AnnouncerParts): Announcer {
  const claims = new Map<string, Claim>()
  /** Those with something left to be told, in the order of their turns. */
  const telling = new Map<string, Telling>()
  const carriers = new Map<string, Carrier>()
  let fd: number | undefined
  let timer: NodeJS.Timeout | undefined
  /** When the next beat is. */
  let next = Number.POSITIVE_INFINITY
  let [adopted, closed, beating] = [false, false, false]

  function tell(claim: Claim, left: number): void {
    claims.set(claim.key, claim)
    telling.delete(claim.key)
    telling.set(claim.key, { ...claim, left, due: performance.now() })
    beatIn(BEAT_MS)
  }

  /** Or sooner, if that is what is planned. */
  function beatIn(ms: number): void {
    const at = performance.now() + ms
    if (closed || beating || at >= next) return
    clearTimeout(timer)
    next = at
    timer = setTimeout(run, ms).unref()
  }

  async function run(): Promise<void> {
    beating = true
    next = Number.POSITIVE_INFINITY
    try {
      await beat()
    } catch (error) {
      // Each still has its rounds; those that could not be sent are gone.
      const now = performance.now()
      for (const one of [...telling.values()]) {
        if (one.due > now) continue
        one.left--
        one.due = now + ROUND_MS
        if (one.left <= 0) telling.delete(one.key)
      }
      if (!closed) onProblem(error)
    }
    beating = false
    if (telling.size === 0) return
    const due = Math.min(...Array.from(telling.values(), (one) => one.due))
    beatIn(Math.max(BEAT_MS, due - performance.now()))
  }

  async function beat(): Promise<void> {
    const now = performance.now()
    const due: Telling[] = []
    for (const one of telling.values()) {
      if (one.due > now) continue
      if (due.push(one) >= FRAMES_A_BEAT) break
    }
    const names = [...new Set(due.map(({ link }) => link))]
    const known = names.map((name) => carriers.get(name))
    const found = await look(names)
    if (closed) return
    const links = new Map(names.map((name, at) => [name, found[at]]))
    for (const [at, name] of names.entries()) {
      // What was heard meanwhile is newer.
      if (carriers.get(name) === known[at]) carriers.set(name, found[at] ?? { running: false })
    }
    for (const one of due) {
      // Given back, or claimed anew, while the question was under way.
      if (telling.get(one.key) !== one) continue
      telling.delete(one.key)
      const link = links.get(one.link)
      // It is told from the beginning when there is a carrier.
      if (link?.mac === undefined || link.mac === NO_MAC || !link.running) continue
      send(one, link.mac, link)
      if (one.left > 1) telling.set(one.key, { ...one, left: one.left - 1, due: now + ROUND_MS })
    }
  }

  function send({ address, left }: Telling, mac: string, { index, conf, name }: LinkDetail): void {
    const [text = ''] = address.split('/', 1)
    const ipv6 = addressBytes(text).length === 16
    const router = confValue(conf, `ipv6/conf/${name}/forwarding`, name) === 1
    const frame = ipv6 ? neighbourAdvertisement(text, mac, router) : gratuitousArp(text, mac, left % 2 === 0)
    fd ??= socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)
    try {
      sendTo(fd, frame, place(index, ipv6 ? ETH_P_IPV6 : ETH_P_ARP))
    } catch (error) {
      // The device is gone or down, or its queue is full: the next round comes.
      if (!(error instanceof KernelError)) throw error
    }
  }

  return {
    claim(claim) {
      if (telling.has(claim.key)) return
      tell(claim, ROUNDS)
    },
    release(key) {
      claims.delete(key)
      telling.delete(key)
    },
    adopt(present) {
      const keys = new Set(present.map(({ key }) => key))
      for (const key of claims.keys()) if (!keys.has(key)) this.release(key)
      for (const claim of present) if (!claims.has(claim.key)) tell(claim, adopted ? ROUNDS : 1)
      adopted = true
    },
    hear({ type, payload }) {
      if (claims.size === 0 || (type !== RTM_NEWLINK && type !== RTM_DELLINK)) return
      if (payload.readUInt8(0) === AF_BRIDGE) return
      const { name, mac, running } = decodeLink(payload)
      const before = carriers.get(name)
      const now: Carrier = { running: running && type === RTM_NEWLINK, ...(mac !== undefined && { mac }) }
      if (type === RTM_DELLINK && !Array.from(claims.values()).some(({ link }) => link === name)) carriers.delete(name)
      else carriers.set(name, now)
      if (!now.running || (before?.running && before.mac === mac)) return
      // Before the first look at a device nothing has been sent by it: what is due stays due.
      if (before) for (const claim of claims.values()) claim.link === name && tell(claim, ROUNDS)
      else for (const one of [...telling.values()]) one.link === name && tell(one, one.left)
    },
    close() {
      closed = true
      clearTimeout(timer)
      telling.clear()
      if (fd !== undefined) closeFile(fd)
      fd = undefined
    },
  }
}

/** struct sockaddr_ll: by which device it leaves. */
function place(ifindex: number, protocol: number): Buffer {
  const address = Buffer.alloc(20)
  address.writeUInt16LE(AF_PACKET, 0)
  address.writeUInt16BE(protocol, 2)
  address.writeInt32LE(ifindex, 4)
  address.writeUInt8(6, 11)
  return address
}
