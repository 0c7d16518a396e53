/** What is served: networks, which MAC has which address, and the newest that is known of each lease. */
import type { DhcpEntry, DhcpNetwork, DhcpRefusal } from '../../dataplane/responder/entries.ts'
import type { LeaseEvent } from '../../dataplane/responder/protocol.ts'
import { addressText, networkOf } from './address.ts'
import { addressBytes, numberBytes, OPTION } from './message.ts'

export interface Passage {
  before?: DhcpEntry
  after?: DhcpEntry
}

/** A network as answers are made of it. */
export interface Network {
  net: number
  link: string
  first: number
  last: number
  gateway: number
  leaseSeconds: number
  /** What clients are told of it, by option. */
  options: ReadonlyMap<number, Buffer>
}

export interface Binding {
  net: number
  address: number
  mac: string
  hostname: string
  /** Unix ms; leases of before are refused when they are renewed. 0: none was ended. */
  endedAt: number
}

export interface Book {
  /**
   * Takes over all passages. Returns the leases that end because their binding is gone.
   * @throws Error for an entry that cannot be read; then nothing is taken over
   */
  apply(passages: readonly Passage[], now: number): LeaseEvent[]
  network(net: number): Network | undefined
  binding(net: number, mac: string): Binding | undefined
  /** The lease of an address, while it lasts and is this MAC's. */
  lease(binding: Binding, now: number): LeaseEvent | undefined
  /** True for a MAC that lost its binding and has a lease still. */
  hadLease(net: number, mac: string, now: number): boolean
  /** Remembers the newest of a lease; returns it with a time that no earlier one of its address has. */
  note(event: LeaseEvent): LeaseEvent
  /** Forgets leases that are long over. */
  forget(now: number): void
  size(): { networks: number; bindings: number; leases: number }
}

/** For so long after its end it is still known what was last heard of an address, in milliseconds. */
const REMEMBERED = 3_600_000

const key = (net: number, rest: string | number) => `${net} ${rest}`

export function openBook(): Book {
  const networks = new Map<number, Network>()
  const bindings = new Map<string, Binding>()
  const newest = new Map<string, LeaseEvent>()
  /** Until when (Unix seconds), by network and MAC. */
  const former = new Map<string, number>()
  /** The same as it was told; what ended with an earlier process is known by this alone. */
  const refusals = new Map<string, number>()

  function unbind({ net, address, mac }: Binding, now: number): LeaseEvent {
    const text = addressText(address)
    const known = newest.get(key(net, text))
    const held = known?.mac === mac && known.state === 'active' ? known : undefined
    const { hostname = '', expiresAt = Math.floor(now / 1000) } = held ?? {}
    if (held && expiresAt * 1000 > now) former.set(key(net, mac), expiresAt)
    return { net, mac, address: text, hostname, state: 'revoked', expiresAt, at: now, unbound: true }
  }

  const book: Book = {
    apply(passages, now) {
      const read = passages.map(({ before, after }) => ({ before: compiled(before), after: compiled(after) }))
      const ended: LeaseEvent[] = []
      // First what goes, whatever the order of the passages: a MAC may move from one address to another.
      for (const { before, after } of read) {
        if (before?.network) networks.delete(before.network.net)
        if (before?.refusal) refusals.delete(key(before.refusal.net, before.refusal.mac))
        if (before?.binding === undefined) continue
        const { binding } = before
        const place = key(binding.net, binding.mac)
        if (bindings.get(place)?.address !== binding.address) continue
        bindings.delete(place)
        if (after?.binding?.mac !== binding.mac) ended.push(unbind(binding, now))
      }
      for (const { after } of read) {
        if (after?.network) networks.set(after.network.net, after.network)
        if (after?.refusal) refusals.set(key(after.refusal.net, after.refusal.mac), after.refusal.until)
        if (after?.binding === undefined) continue
        const place = key(after.binding.net, after.binding.mac)
        bindings.set(place, after.binding)
        former.delete(place)
      }
      return ended.map(book.note)
    },
    network: (net) => networks.get(net),
    binding: (net, mac) => bindings.get(key(net, mac)),
    lease({ net, address, mac }, now) {
      const known = newest.get(key(net, addressText(address)))
      return known?.state === 'active' && known.mac === mac && known.expiresAt * 1000 > now ? known : undefined
    },
    hadLease: (net, mac, now) => [former, refusals].some((ends) => (ends.get(key(net, mac)) ?? 0) * 1000 > now),
    note(event) {
      const place = key(event.net, event.address)
      const noted = { ...event, at: Math.max(event.at, (newest.get(place)?.at ?? 0) + 1) }
      newest.set(place, noted)
      return noted
    },
    forget(now) {
      for (const [place, until] of former) if (until * 1000 <= now) former.delete(place)
      for (const [place, { expiresAt, at }] of newest) {
        if (Math.max(expiresAt * 1000, at) + REMEMBERED <= now) newest.delete(place)
      }
    },
    size: () => ({ networks: networks.size, bindings: bindings.size, leases: newest.size }),
  }
  return book
}

interface Compiled {
  network?: Network
  binding?: Binding
  refusal?: DhcpRefusal
}

function compiled(entry: DhcpEntry | undefined): Compiled | undefined {
  if (entry === undefined) return undefined
  if (entry.kind === 'dhcp_refusal') return { refusal: entry }
  if (entry.kind === 'dhcp_network') return { network: compileNetwork(entry) }
  const { net, address, mac, hostname, endedAt = 0 } = entry
  return { binding: { net, address: numberOf(address, entry.key), mac, hostname, endedAt } }
}

function compileNetwork({ key: name, net, link, cidr, gateway, leaseSeconds, mtu, dns, domain }: DhcpNetwork): Network {
  const block = networkOf(cidr)
  if (block === undefined) throw new Error(`${name}: ${cidr} is no network`)
  const router = numberOf(gateway, name)
  const options = new Map<number, Buffer>([
    [OPTION.mask, addressBytes(block.mask)],
    [OPTION.router, addressBytes(router)],
    [OPTION.broadcast, addressBytes(block.last)],
  ])
  if (dns.length > 0) options.set(OPTION.dns, addressBytes(...dns.map((text) => numberOf(text, name))))
  if (domain !== '') options.set(OPTION.domain, Buffer.from(domain, 'latin1'))
  if (mtu > 0) options.set(OPTION.mtu, numberBytes(mtu, 2))
  return { net, link, first: block.first, last: block.last, gateway: router, leaseSeconds, options }
}

function numberOf(text: string, name: string): number {
  const address = text.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)
  if (addressText(address) !== text) throw new Error(`${name}: ${text} is no address`)
  return address
}
