/** The plane over the real kernel. What this node cannot do is a facility that is off, with the reason; nothing throws. */
import type { KindOwners } from './bpf/port/driver.ts'
import { NO_PORTS, openPorts } from './bpf/port/open.ts'
import { bridgedFramesMeetHooks } from './bridge-netfilter.ts'
import { NO_CONNECTIONS, openConnections } from './connections.ts'
import { NO_DEVICES, openDevices } from './devices.ts'
import { NETLINK_GENERIC, NETLINK_NETFILTER, NETLINK_ROUTE } from './netlink/bind.ts'
import { followDefaultRoute, NO_DEFAULT_ROUTE } from './netlink/default-route.ts'
import { openNetlinkDriver } from './netlink/driver.ts'
import { openNetlink } from './netlink/socket.ts'
import { nftDriver } from './nft/driver.ts'
import { openGeneration } from './nft/generation.ts'
import { openNft } from './nft/session.ts'
import type { Skeleton } from './nft/skeleton.ts'
import { type Facility, joinDrivers, type Plane } from './plane.ts'

export interface KernelOptions {
  skeletons: readonly Skeleton[]
  /** Area → the number that marks what is its in netlink. */
  owners: ReadonlyMap<string, number>
  /** Directory on a bpf filesystem for what shall outlive the agent. */
  bpfDir: string
  /** The area that renders each kind of entry of the programs on the workload ports. */
  portKinds: KindOwners
  /** Told of what goes wrong outside any change, such as a port that cannot be guarded. */
  onProblem(error: unknown): void
  /** An open file that the nft helper keeps open as long as it lives. */
  lock?: number
}

export async function openKernel(options: KernelOptions): Promise<Plane> {
  const { skeletons, owners, lock } = options
  let restarts = 0
  const nft = await attempt('nft', 'nftables table inet stratum', async () => {
    const session = await openNft(lock, () => void restarts++)
    try {
      // Without CAP_NET_ADMIN this fails, and says so, before any area relies on the table.
      await session.run('list tables inet\n')
      return { session, generation: openGeneration() }
    } catch (error) {
      await session.close()
      throw error
    }
  })
  const reading = await attempt('netlink', 'links, addresses, routes, connections', async () => {
    const route = openNetlink(NETLINK_ROUTE)
    const netfilter = openNetlink(NETLINK_NETFILTER)
    const generic = openNetlink(NETLINK_GENERIC)
    return { route, netfilter, generic, defaultRoute: await followDefaultRoute(route) }
  })
  const sockets = reading.value
  // Whoever may not change anything may still look.
  const writing = sockets && (await attempt('netlink', reading.facility.detail, () => openNetlinkDriver({ owners })))
  const netlink = writing ?? reading
  const driver = nft.value && nftDriver(nft.value.session, skeletons, nft.value.generation)
  const port = await attempt('port', 'programs on the ports of br-work', async () => {
    if (!sockets || !driver) throw new Error('needs netlink and nft')
    const { bpfDir: root, portKinds, onProblem } = options
    return openPorts({ root, route: sockets.route, nft: driver.beside, owners: portKinds, onProblem })
  })
  // What judges packets comes before what lets them in: after a reboot nothing passes unjudged.
  const drivers = [driver, port.value?.driver, writing?.value].filter((it) => it !== undefined)
  const plane = joinDrivers(drivers, () => [
    { ...nft.facility, restarts },
    netlink.facility,
    portFacility(port.facility),
  ])
  return {
    ...plane,
    connections: sockets ? openConnections(sockets.route, sockets.netfilter) : NO_CONNECTIONS,
    defaultRoute: sockets?.defaultRoute ?? NO_DEFAULT_ROUTE,
    devices: sockets ? openDevices(sockets.route, sockets.generic) : NO_DEVICES,
    ports: port.value?.ports ?? NO_PORTS,
    addExpiring: async (set, elements) => driver?.addExpiring(set, elements),
    async close() {
      await plane.close()
      sockets?.defaultRoute.close()
      await sockets?.route.close()
      await sockets?.netfilter.close()
      await sockets?.generic.close()
    },
  }
}

/** What an operator should know of the ports besides. */
function portFacility(facility: Facility): Facility {
  if (!facility.available || !bridgedFramesMeetHooks()) return facility
  const detail = `${facility.detail}; bridged broadcasts meet the IP hooks (bridge_netfilter off ends that)`
  return { ...facility, detail }
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
