/** Ending connections in conntrack. The addresses and ports that callers see are those before translation. */

import { listAddresses } from './netlink/address.ts'
import { deleteConntrack, listConntrack } from './netlink/conntrack.ts'
import type { Conntrack } from './netlink/ctnetlink.ts'
import { getLink } from './netlink/link.ts'
import { listNeighbours } from './netlink/neighbour.ts'
import { lookupRoute } from './netlink/route.ts'
import type { Netlink } from './netlink/socket.ts'

/** A connection by its first packet. */
export interface Connection {
  family: 4 | 6
  /** IP protocol number. */
  protocol: number
  src: string
  dst: string
  /** 0 for a protocol without ports. */
  sport: number
  dport: number
  /** Device and MAC behind which the source lies now, when `ingress` was asked for and they are known. */
  interface?: string | undefined
  mac?: string | undefined
}

/** Lets the kernel leave out what cannot match. */
export interface ConnectionHint {
  protocol?: number | undefined
  /** Single addresses help; prefixes are ignored. */
  src?: string
  dst?: string
  /** Work out `interface` and `mac`. Conntrack holds neither: they are where the route back to the source leads. */
  ingress?: boolean
}

/** Connections that came in from elsewhere and that `forbidden` names are forgotten; resolves to their number. */
export async function endConnections(
  route: Netlink,
  netfilter: Netlink,
  forbidden: (connection: Connection) => boolean,
  hint: ConnectionHint,
): Promise<number> {
  const address = (text: string | undefined) => (text === undefined || text.includes('/') ? undefined : text)
  const [src, dst] = [address(hint.src), address(hint.dst)]
  const filter = {
    ...(hint.protocol !== undefined && { proto: hint.protocol }),
    ...(src !== undefined && { src }),
    ...(dst !== undefined && { dst }),
  }
  const own = new Set((await listAddresses(route)).map(({ cidr }) => cidr.slice(0, cidr.indexOf('/'))))
  const where = (entry: Conntrack) => !own.has(entry.src) && (hint.ingress === true || forbidden(asConnection(entry)))
  const found = await listConntrack(netfilter, { filter, where })
  if (!hint.ingress) return deleteConntrack(netfilter, found)
  const locate = ingressOf(route)
  const doomed: Conntrack[] = []
  for (const entry of found) {
    if (forbidden({ ...asConnection(entry), ...(await locate(entry.src)) })) doomed.push(entry)
  }
  return deleteConntrack(netfilter, doomed)
}

function asConnection({ version, proto, src, dst, sport = 0, dport = 0 }: Conntrack): Connection {
  return { family: version, protocol: proto, src, dst, sport, dport }
}

/** Where packets from an address come in, judged by the way back to it; each address is asked for once. */
function ingressOf(route: Netlink): (address: string) => Promise<Pick<Connection, 'interface' | 'mac'>> {
  const known = new Map<string, Promise<Pick<Connection, 'interface' | 'mac'>>>()
  const work = async (address: string) => {
    try {
      const { oif, gateway = address } = await lookupRoute(route, address)
      const [link, neighbours] = await Promise.all([getLink(route, oif), listNeighbours(route, { index: oif })])
      return { interface: link?.name, mac: neighbours.find((neighbour) => neighbour.address === gateway)?.mac }
    } catch {
      // No way back: whoever sent from there gets no answer either, and the connection matches no device.
      return {}
    }
  }
  return (address) => {
    const found = known.get(address) ?? work(address)
    known.set(address, found)
    return found
  }
}
