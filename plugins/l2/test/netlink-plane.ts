/** The plane over netlink alone: loading the programs of the workload ports takes minutes on an emulated processor. */
import { NO_FILTER } from '../../../dataplane/bpf/firewall/filter.ts'
import { NO_TRAFFIC } from '../../../dataplane/bpf/flow/traffic.ts'
import { byNft } from '../../../dataplane/bpf/lb/balancer.ts'
import { NO_PORTS } from '../../../dataplane/bpf/port/open.ts'
import { NO_CONNECTIONS } from '../../../dataplane/connections.ts'
import { openDevices } from '../../../dataplane/devices.ts'
import { NO_BGP } from '../../../dataplane/frr/bgp.ts'
import { NETLINK_GENERIC, NETLINK_ROUTE } from '../../../dataplane/netlink/bind.ts'
import { whyNoBonds } from '../../../dataplane/netlink/bond.ts'
import { NO_DEFAULT_ROUTE } from '../../../dataplane/netlink/default-route.ts'
import { openNetlinkDriver } from '../../../dataplane/netlink/driver.ts'
import { openNetlink } from '../../../dataplane/netlink/socket.ts'
import { joinDrivers, type Plane } from '../../../dataplane/plane.ts'
import { NO_LEASES } from '../../../dataplane/responder/driver.ts'
import { NO_SHAPING } from '../../../dataplane/shaping/open.ts'

export async function netlinkPlane({ owners }: { owners: ReadonlyMap<string, number> }): Promise<Plane> {
  const [route, generic] = [openNetlink(NETLINK_ROUTE), openNetlink(NETLINK_GENERIC)]
  const [driver, why] = [await openNetlinkDriver({ owners }), await whyNoBonds(route)]
  const facilities = [
    { name: 'netlink', available: true, detail: 'links' },
    { name: 'bonding', available: why === undefined, detail: why ?? 'bonds' },
  ]
  const plane = joinDrivers([driver], () => facilities)
  return {
    ...plane,
    connections: NO_CONNECTIONS,
    defaultRoute: NO_DEFAULT_ROUTE,
    devices: openDevices(route, generic),
    ports: NO_PORTS,
    traffic: NO_TRAFFIC,
    filter: NO_FILTER,
    leases: NO_LEASES,
    balancer: byNft('there are no programs'),
    shaping: NO_SHAPING,
    bgp: NO_BGP,
    addExpiring: async () => {},
    holds: async () => false,
    async close() {
      await plane.close()
      await route.close()
      await generic.close()
    },
  }
}
