/**
 * The DHCP server of the responder: entries in, answers on the wire, leases out. It goes on with what it was told last for
 * as long as it runs, and keeps nothing on disk.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { deviceIndex, KernelError } from '../../dataplane/libc.ts'
import type { LeaseEvent } from '../../dataplane/responder/protocol.ts'
import { addressText } from './address.ts'
import { answer, type Outcome } from './answer.ts'
import { openBook, type Passage } from './book.ts'
import { type Arrival, type Link, openLink } from './link.ts'
import { readRequest } from './message.ts'

export type { Passage } from './book.ts'

export interface DhcpOptions {
  onLease(event: LeaseEvent): void
  /** Calls `then` when the client may be told of its lease; default: at once. See leases.ts. */
  whenStored?(net: number, address: string, then: () => void): void
  /** Unix milliseconds. */
  now?(): number
  /** Told of what goes wrong outside of any call, such as a device that went away; repeated while it lasts. */
  onProblem?(error: unknown): void
}

export interface DhcpStats {
  networks: number
  bindings: number
  /** Addresses of which a lease is known. */
  leases: number
  /** Devices that are listened on. */
  links: string[]
  /** How many requests had which outcome; `malformed` ones and answers that were `unsent` among them. */
  counts: Readonly<Record<Outcome['what'] | 'malformed' | 'unsent', number>>
}

export interface Dhcp {
  /** Takes over all passages before it returns. @throws Error for what cannot be read; then nothing is taken over */
  apply(passages: readonly Passage[]): void
  /**
   * Opens a socket for the first network of a device and closes it with the last; bindings ask for none. Call it after
   * `apply`. Rejects with a sentence for the operator, and all sockets as they were.
   */
  applyListeners(passages: readonly Passage[]): Promise<void>
  stats(): DhcpStats
  close(): Promise<void>
}

/** How long it takes at most until a device that was made anew is served again. */
const WATCH_MS = 1000
const FORGET_EVERY = 600

export function openDhcp({
  onLease,
  whenStored = (_net, _address, then) => then(),
  now = Date.now,
  onProblem = () => {},
}: DhcpOptions): Dhcp {
  const book = openBook()
  const links = new Map<string, Link>()
  /** Networks that are listened for, by key: their devices. */
  let served: ReadonlyMap<string, string> = new Map()
  const counts: Record<keyof DhcpStats['counts'], number> = {
    ...{ offer: 0, ack: 0, nak: 0, inform: 0, release: 0, decline: 0 },
    ...{ unknown: 0, relayed: 0, ignored: 0, malformed: 0, unsent: 0 },
  }
  function arrived(link: () => Link | undefined, { bytes, net, source }: Arrival): void {
    const request = readRequest(bytes)
    if (request === undefined) {
      counts.malformed++
      return
    }
    const { what, reply, event } = answer(book, request, { net, source }, now())
    counts[what]++
    if (event) onLease(book.note(event))
    const binding = what === 'ack' ? book.binding(net, request.mac) : undefined
    if (reply === undefined || binding === undefined) {
      send(link, reply)
      return
    }
    const { address } = binding
    whenStored(net, addressText(address), () => {
      // It may have been taken from the client meanwhile, who asks again and is refused.
      if (book.binding(net, request.mac)?.address === address) send(link, reply)
    })
  }

  function send(link: () => Link | undefined, reply: Outcome['reply']): void {
    if (reply === undefined) return
    try {
      link()?.send(reply.bytes, reply.from, reply.to)
    } catch (error) {
      // The gateway address may be on its way, or the client gone; it asks again.
      if (!(error instanceof KernelError)) throw error
      counts.unsent++
    }
  }

  const open = (name: string): Link =>
    openLink(
      name,
      (arrival) => arrived(() => links.get(name), arrival),
      (error) => {
        links.delete(name)
        onProblem(new Error(problem(name, error), { cause: error }))
      },
    )

  /** A device may go away and come back as another of the same name, and a socket may fail. */
  function watch(): void {
    for (const name of new Set(served.values())) {
      const link = links.get(name)
      const ifindex = deviceIndex(name)
      if (link?.ifindex === ifindex) continue
      link?.close()
      links.delete(name)
      try {
        links.set(name, open(name))
      } catch (error) {
        onProblem(new Error(problem(name, error), { cause: error }))
      }
    }
  }

  const stopped = new AbortController()
  const watching = (async () => {
    for (let turn = 1; ; turn++) {
      await delay(WATCH_MS, undefined, { signal: stopped.signal, ref: false })
      watch()
      if (turn % FORGET_EVERY === 0) book.forget(now())
    }
  })().catch((error: unknown) => {
    if (!stopped.signal.aborted) onProblem(error)
  })

  return {
    apply(passages) {
      for (const event of book.apply(passages, now())) onLease(event)
    },
    async applyListeners(passages) {
      const next = new Map(served)
      for (const { before, after } of passages) {
        if (before?.kind === 'dhcp_network') next.delete(before.key)
        if (after?.kind === 'dhcp_network') next.set(after.key, after.link)
      }
      const wanted = new Set(next.values())
      const fresh = new Map<string, Link>()
      for (const name of wanted) {
        if (links.has(name)) continue
        try {
          fresh.set(name, open(name))
        } catch (error) {
          for (const link of fresh.values()) link.close()
          throw new Error(problem(name, error), { cause: error })
        }
      }
      served = next
      for (const [name, link] of fresh) links.set(name, link)
      for (const [name, link] of links) {
        if (wanted.has(name)) continue
        link.close()
        links.delete(name)
      }
    },
    stats: () => ({ ...book.size(), links: [...links.keys()].sort(), counts: { ...counts } }),
    async close() {
      stopped.abort()
      await watching
      for (const link of links.values()) link.close()
      links.clear()
    },
  }
}

function problem(name: string, error: unknown): string {
  const what = `cannot serve DHCP on ${name}`
  if (!(error instanceof KernelError)) return `${what}: ${String(error)}`
  switch (error.code) {
    case 'EADDRINUSE':
      return `${what}: UDP port 67 is in use (is another DHCP server running? It must keep to devices of its own)`
    case 'ENODEV':
      return `${what}: there is no such device`
    case 'ENOPROTOOPT':
      return `${what}: the kernel is older than 5.19 and cannot tell networks apart`
    default:
      return `${what}: ${error.meaning}`
  }
}
