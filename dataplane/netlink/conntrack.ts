/**
 * The connection tracking table: which connections exist, and removing them. The firewall evicts with it the
 * established connections that a new drop rule forbids.
 */
import { KernelError } from '../libc.ts'
import { Payload } from './attribute.ts'
import {
  CONNTRACK_DELETE,
  CONNTRACK_GET,
  CONNTRACK_NEW,
  type Conntrack,
  type ConntrackFilter,
  conntrackHeader,
  decodeConntrack,
  encodeDeletion,
  encodeFilter,
} from './ctnetlink.ts'
import { addressBytes, addressText, type IpVersion } from './inet.ts'
import type { Netlink } from './socket.ts'
import type { Message } from './wire.ts'

/** What kernels say to a filter that they do not know or cannot apply. */
const REFUSALS: ReadonlySet<string> = new Set(['EINVAL', 'ENOTSUP'])

export interface ConntrackQuery {
  version?: IpVersion
  filter?: ConntrackFilter
  /** Any further condition. */
  where?: (entry: Conntrack) => boolean
}

/**
 * The entries that meet `query`. The kernel leaves out what it can; all the rest is checked here, so a kernel that
 * ignores or refuses the filter costs time and changes nothing. `netlink` must be a NETLINK_NETFILTER socket.
 * Rejects as {@link Netlink.dump} does.
 */
export async function listConntrack(netlink: Netlink, query: ConntrackQuery = {}): Promise<Conntrack[]> {
  const version = query.version ?? filterVersion(query.filter)
  const accept = acceptance(version, query)
  const list = (payload: Buffer) =>
    netlink.dump(CONNTRACK_GET, payload, (message) => {
      const entry = message.type === CONNTRACK_NEW ? decodeConntrack(message.payload) : undefined
      return entry && accept(entry) ? entry : undefined
    })
  const unfiltered = new Payload().raw(conntrackHeader(version)).finish()
  const filtered = version && encodeFilter(version, query.filter ?? {})
  if (!filtered) return list(unfiltered)
  try {
    return await list(filtered)
  } catch (error) {
    if (!(error instanceof KernelError && REFUSALS.has(error.code))) throw error
    return list(unfiltered)
  }
}

/**
 * Removes exactly these entries and resolves to how many there still were. An entry that is gone, or whose
 * addresses are in use by a later connection, is no error. All are tried; then rejects with the first
 * {@link KernelError}.
 */
export async function deleteConntrack(netlink: Netlink, entries: Iterable<Conntrack>): Promise<number> {
  const results = await netlink.request(deletions(entries))
  const failed = results.find((error) => error && error.code !== 'ENOENT')
  if (failed) throw failed
  return results.filter((error) => !error).length
}

function* deletions(entries: Iterable<Conntrack>): Generator<Message> {
  for (const entry of entries) yield { type: CONNTRACK_DELETE, flags: 0, payload: encodeDeletion(entry) }
}

/** Addresses are compared as canonical text, so the filter's are brought into that form first. */
function acceptance(
  version: IpVersion | undefined,
  { filter = {}, where }: ConntrackQuery,
): (entry: Conntrack) => boolean {
  const { proto, sport, dport } = filter
  const src = filter.src === undefined ? undefined : addressText(addressBytes(filter.src))
  const dst = filter.dst === undefined ? undefined : addressText(addressBytes(filter.dst))
  return (entry) =>
    (version === undefined || entry.version === version) &&
    (src === undefined || entry.src === src) &&
    (dst === undefined || entry.dst === dst) &&
    (proto === undefined || entry.proto === proto) &&
    (sport === undefined || entry.sport === sport) &&
    (dport === undefined || entry.dport === dport) &&
    (where === undefined || where(entry))
}

/** Addresses tell the IP version, and the kernel filters only within one. */
function filterVersion({ src, dst }: ConntrackFilter = {}): IpVersion | undefined {
  const address = src ?? dst
  if (address === undefined) return undefined
  return addressBytes(address).length === 4 ? 4 : 6
}
