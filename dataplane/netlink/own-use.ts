/** Whether an address is the node's own: one question, however many it has. */
import { KernelError } from '../libc.ts'
import { LINK_PREFIX, WORK_BRIDGE } from '../numbers.ts'
import { getLink } from './link.ts'
import { lookupRoute, matchedRoute } from './route.ts'
import type { Netlink } from './socket.ts'

const USES = ['local', 'broadcast', 'anycast', 'multicast'] as const
/** `local`: it is on some device of the node. */
export type OwnUse = (typeof USES)[number]

/** Undefined when packets to it would leave the node, or have no way at all. Rejects with {@link KernelError}. */
export async function lookupUse(netlink: Netlink, address: string): Promise<OwnUse | undefined> {
  try {
    const { type } = await lookupRoute(netlink, address)
    return USES.find((use) => use === type)
  } catch (error) {
    if (error instanceof KernelError && NO_WAY.has(error.code)) return undefined
    throw error
  }
}

/**
 * The device behind which a machine of this node has the address: where a route leads that is for this address alone.
 * Undefined for all others. Rejects with {@link KernelError}.
 */
export async function lookupWorkload(netlink: Netlink, address: string): Promise<string | undefined> {
  try {
    const { dst, oif } = (await matchedRoute(netlink, address)) ?? {}
    if (oif === undefined || !dst?.endsWith(address.includes(':') ? '/128' : '/32')) return undefined
    const name = (await getLink(netlink, oif))?.name
    return name === WORK_BRIDGE || name?.startsWith(LINK_PREFIX) ? name : undefined
  } catch (error) {
    if (error instanceof KernelError && NO_WAY.has(error.code)) return undefined
    throw error
  }
}

/** What the kernel says of destinations that no route leads to, or a route forbids. */
const NO_WAY = new Set(['ENETUNREACH', 'EHOSTUNREACH', 'EINVAL', 'EACCES', 'EAGAIN'])
