/**
 * The device that the node's default route leads out by: the public interface, as long as nobody names another.
 * Follows changes: a default route that comes or goes, and the device below one that goes down or away, of which the
 * kernel tells no route (fib_sync_down_dev() in net/ipv4/fib_semantics.c is silent).
 */
import { NETLINK_ROUTE } from './bind.ts'
import { getLink, RTM_DELLINK, RTM_NEWLINK } from './link.ts'
import { type Monitor, openMonitor, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE, RTNLGRP_LINK } from './monitor.ts'
import { listRoutes, type Route, RT_TABLE_MAIN, RTM_DELROUTE, RTM_NEWROUTE } from './route.ts'
import type { Netlink } from './socket.ts'
import type { Received } from './wire.ts'

export interface DefaultRoute {
  /** Name of the device; undefined while the node has no default route. */
  device(): string | undefined
  /** Calls `listener` whenever another device, or none, is meant; returns how to stop that. */
  onChange(listener: () => void): () => void
  close(): void
}

/** No node to look at: tests of areas. */
export const NO_DEFAULT_ROUTE: DefaultRoute = { device: () => undefined, onChange: () => () => {}, close: () => {} }

/** Resolves once the present state is known. Rejects as {@link Netlink.dump} does. */
export async function followDefaultRoute(netlink: Netlink): Promise<DefaultRoute> {
  const listeners = new Set<() => void>()
  let device: string | undefined
  /** Index of the device below every default route there is. */
  let below = new Set<number>()
  let reading: Promise<void> | undefined
  let again = false

  async function read(): Promise<void> {
    const routes = (await listRoutes(netlink, { table: RT_TABLE_MAIN })).filter(isDefault)
    below = new Set(routes.flatMap(({ oif }) => oif ?? []))
    const best = routes.sort((a, b) => a.version - b.version || (a.metric ?? 0) - (b.metric ?? 0))[0]
    const name = best?.oif === undefined ? undefined : (await getLink(netlink, best.oif))?.name
    if (name === device) return
    device = name
    for (const listener of listeners) listener()
  }

  /** One reading at a time, and one more for whatever happens meanwhile. */
  function refresh(): Promise<void> {
    again = true
    reading ??= (async () => {
      while (again) {
        again = false
        await read()
      }
    })().finally(() => {
      reading = undefined
    })
    return reading
  }
  // A reading fails when the socket is closed, or is interrupted by changes, which are told and read again.
  const refreshLater = () => void refresh().catch(() => {})

  const monitor: Monitor = openMonitor({
    protocol: NETLINK_ROUTE,
    groups: [RTNLGRP_LINK, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE],
    onMessage: (message) => concerns(message, below) && refreshLater(),
    onOverflow: refreshLater,
    onError: () => {},
  })
  try {
    await refresh()
  } catch (error) {
    monitor.close()
    throw error
  }
  return {
    device: () => device,
    onChange(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    close: () => monitor.close(),
  }
}

const isDefault = ({ dst, type, oif }: Route): boolean => dst.endsWith('/0') && type === 'unicast' && oif !== undefined

/** Cheap, because every route of a full table passes here: struct rtmsg has the prefix length in its second byte. */
function concerns({ type, payload }: Received, below: ReadonlySet<number>): boolean {
  if (type === RTM_NEWROUTE || type === RTM_DELROUTE) return payload.readUInt8(1) === 0
  // struct ifinfomsg has the index at offset 4.
  return (type === RTM_NEWLINK || type === RTM_DELLINK) && below.has(payload.readInt32LE(4))
}
