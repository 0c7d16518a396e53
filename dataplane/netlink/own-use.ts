/** Whether an address is the node's own: one question, however many it has. */
import { KernelError } from '../libc.ts'
import { lookupRoute } from './route.ts'
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

/** What the kernel says of destinations that no route leads to, or a route forbids. */
const NO_WAY = new Set(['ENETUNREACH', 'EHOSTUNREACH', 'EINVAL', 'EACCES', 'EAGAIN'])
