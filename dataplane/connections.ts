/** The connections that conntrack knows, and ending them. Addresses and ports are those before translation. */
import { readFileSync } from 'node:fs'
import { listAddresses } from './netlink/address.ts'
import { deleteConntrack, listConntrack } from './netlink/conntrack.ts'
import type { Conntrack, Tuple } from './netlink/ctnetlink.ts'
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
  /** What answers look like. */
  reply: Required<Tuple>
  /** Answered, and over TCP neither being opened nor being ended. */
  established: boolean
}

/** Where packets of an address come in. */
export interface Ingress {
  interface?: string | undefined
  mac?: string | undefined
}

export interface Connections {
  /**
   * Those that came in from elsewhere, with `own` also those that the node opened; of one protocol to one address where
   * `to` says so. Some 10 ms, whatever their number.
   */
  list(options?: { own?: boolean; to?: { dst: string; protocol: number } }): Promise<Connection[]>
  /** How many conntrack knows, those of the node itself included; costs nothing, however many. */
  count(): number
  /** Conntrack holds neither device nor MAC: they are where the way back to the address leads now. */
  locate(address: string): Promise<Ingress>
  /** Makes conntrack forget them; resolves to how many there still were. */
  end(connections: readonly Connection[]): Promise<number>
}

export const NO_CONNECTIONS: Connections = {
  list: async () => [],
  count: () => 0,
  locate: async () => ({}),
  end: async () => 0,
}

export function openConnections(route: Netlink, netfilter: Netlink): Connections {
  const entries = new WeakMap<Connection, Conntrack>()
  return {
    async list({ own = false, to } = {}) {
      const addresses = own ? [] : await listAddresses(route)
      const spared = new Set(addresses.map(({ cidr }) => cidr.slice(0, cidr.indexOf('/'))))
      const found = await listConntrack(netfilter, {
        where: ({ src }) => !spared.has(src),
        ...(to && { filter: { dst: to.dst, proto: to.protocol } }),
      })
      return found.map((entry) => {
        const connection = asConnection(entry)
        entries.set(connection, entry)
        return connection
      })
    },
    count,
    locate: (address) => locate(route, address),
    end: (connections) =>
      deleteConntrack(
        netfilter,
        connections.flatMap((connection) => entries.get(connection) ?? []),
      ),
  }
}

/** With those that pass conntrack by. */
export function joinConnections(tracked: Connections, others: Pick<Connections, 'list' | 'end'>): Connections {
  return {
    ...tracked,
    list: async (options) => [...(await tracked.list(options)), ...(await others.list())],
    end: async (connections) => (await tracked.end(connections)) + (await others.end(connections)),
  }
}

/** nf_conntrack_count of this process's namespace; nothing is tracked where there is no such file. */
function count(): number {
  try {
    return Number(readFileSync('/proc/sys/net/netfilter/nf_conntrack_count', 'utf8'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0
    throw error
  }
}

/** linux/netfilter/nf_conntrack_common.h and nf_conntrack_tcp.h */
const IPS_SEEN_REPLY = 2
const TCP_CONNTRACK_ESTABLISHED = 3

function asConnection(entry: Conntrack): Connection {
  const { version, proto, src, dst, sport = 0, dport = 0, reply, status, tcpState } = entry
  const established =
    (status & IPS_SEEN_REPLY) !== 0 && (tcpState === undefined || tcpState === TCP_CONNTRACK_ESTABLISHED)
  const answers = { sport: 0, dport: 0, ...reply }
  return { family: version, protocol: proto, src, dst, sport, dport, reply: answers, established }
}

async function locate(route: Netlink, address: string): Promise<Ingress> {
  try {
    const { oif, gateway = address } = await lookupRoute(route, address)
    const [link, neighbours] = await Promise.all([getLink(route, oif), listNeighbours(route, { index: oif })])
    return { interface: link?.name, mac: neighbours.find((neighbour) => neighbour.address === gateway)?.mac }
  } catch {
    // No way back: whoever sent from there gets no answer either, and the connection matches no device.
    return {}
  }
}
