/** The plane over the real kernel. What this node cannot do is a facility that is off, with the reason; nothing throws. */
import { NO_CONNECTIONS, openConnections } from './connections.ts'
import { openNetlink } from './netlink/socket.ts'
import { nftDriver, type Skeleton } from './nft/driver.ts'
import { openNft } from './nft/session.ts'
import { type Facility, joinDrivers, type Plane } from './plane.ts'

const NETLINK_ROUTE = 0
const NETLINK_NETFILTER = 12

/** `lock`: an open file that the nft helper keeps open as long as it lives. */
export async function openKernel(skeletons: readonly Skeleton[], lock?: number): Promise<Plane> {
  const nft = await attempt('nft', 'nftables table inet stratum', async () => {
    const session = await openNft(lock)
    try {
      // Without CAP_NET_ADMIN this fails, and says so, before any area relies on the table.
      await session.run('list tables inet\n')
      return session
    } catch (error) {
      await session.close()
      throw error
    }
  })
  const netlink = await attempt('netlink', 'links, addresses, routes, connections', async () => ({
    route: openNetlink(NETLINK_ROUTE),
    netfilter: openNetlink(NETLINK_NETFILTER),
  }))
  const driver = nft.value && nftDriver(nft.value, skeletons)
  const plane = joinDrivers(driver ? [driver] : [], () => [nft.facility, netlink.facility])
  const sockets = netlink.value
  return {
    ...plane,
    connections: sockets ? openConnections(sockets.route, sockets.netfilter) : NO_CONNECTIONS,
    addExpiring: async (set, elements) => driver?.addExpiring(set, elements),
    async close() {
      await plane.close()
      await sockets?.route.close()
      await sockets?.netfilter.close()
    },
  }
}

async function attempt<T>(
  name: string,
  detail: string,
  open: () => Promise<T>,
): Promise<{ facility: Facility; value?: T }> {
  try {
    return { facility: { name, available: true, detail }, value: await open() }
  } catch (error) {
    return { facility: { name, available: false, detail: (error as Error).message } }
  }
}
