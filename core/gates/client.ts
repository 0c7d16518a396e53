/** Who is at the other end of a connection; worked out once per connection. */
import type { Socket } from 'node:net'
import ipaddr from 'ipaddr.js'
import { inHex } from '../../dataplane/nft/text.ts'

export interface Client {
  /** Canonical address, IPv4-mapped IPv6 unwrapped. Empty on the control socket. */
  address: string
  /** What rate and lockout are counted by: the IPv4 address, or the /64 of an IPv6 one (D36, D37). */
  key: string
  /** Came over the root-only control socket. */
  control: boolean
}

const known = new WeakMap<Socket, Client>()
const CONTROL: Client = { address: '', key: '', control: true }

export function clientOf(socket: Socket): Client {
  const found = known.get(socket)
  if (found !== undefined) return found
  const client = clientAt(socket.remoteAddress ?? '')
  known.set(socket, client)
  return client
}

/** Marks a connection as one of the control socket. */
export function markControl(socket: Socket): void {
  known.set(socket, CONTROL)
}

/** The client at `remote`, as the kernel writes addresses. An unreadable one stands for itself. */
export function clientAt(remote: string): Client {
  const bare = remote.replace(/%.*$/, '')
  if (!ipaddr.isValid(bare)) return { address: remote, key: remote, control: false }
  const read = ipaddr.parse(bare.includes(':') ? inHex(bare) : bare)
  // Only ::ffff:a.b.c.d is an IPv4 client; ::a.b.c.d is an IPv6 address like any other.
  const parsed = read instanceof ipaddr.IPv6 && read.isIPv4MappedAddress() ? read.toIPv4Address() : read
  if (parsed instanceof ipaddr.IPv4) return { address: parsed.toString(), key: parsed.toString(), control: false }
  const key = `${parsed.parts
    .slice(0, 4)
    .map((part) => part.toString(16))
    .join(':')}::/64`
  return { address: parsed.toRFC5952String(), key, control: false }
}
