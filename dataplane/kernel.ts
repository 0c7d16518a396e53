/** The plane over the real kernel. What this node cannot do is a facility that is off, with the reason; nothing throws. */

import { type Attaching, openAttaching } from './bpf/attach/attaching.ts'
import type { Form } from './bpf/attach/attachments.ts'
import { NO_FILTER } from './bpf/firewall/filter.ts'
import { takeOffClassifier } from './bpf/firewall/left.ts'
import { classifierAttached, openClassifier } from './bpf/firewall/open.ts'
import { NO_TRAFFIC } from './bpf/flow/traffic.ts'
import { byNft } from './bpf/lb/balancer.ts'
import { leftBalancer } from './bpf/lb/left.ts'
import { openBalancer } from './bpf/lb/open.ts'
import type { KindOwners } from './bpf/port/driver.ts'
import { NO_PORTS, openPorts } from './bpf/port/open.ts'
import { shutPorts } from './bpf/port/shut.ts'
import { bridgedFramesMeetHooks } from './bridge-netfilter.ts'
import { joinConnections, NO_CONNECTIONS, openConnections } from './connections.ts'
import { NO_DEVICES, openDevices } from './devices.ts'
import { forwardingDriver } from './forwarding.ts'
import { NO_BGP } from './frr/bgp.ts'
import { openFrr } from './frr/driver.ts'
import type { FrrPlaces } from './frr/session.ts'
import { inTurn, leftClassifier } from './judges.ts'
import { NETLINK_GENERIC, NETLINK_NETFILTER, NETLINK_ROUTE } from './netlink/bind.ts'
import { whyNoBonds } from './netlink/bond.ts'
import { followDefaultRoute, NO_DEFAULT_ROUTE } from './netlink/default-route.ts'
import { openNetlinkDriver } from './netlink/driver.ts'
import { type Netlink, openNetlink } from './netlink/socket.ts'
import { nftDriver } from './nft/driver.ts'
import { openGeneration } from './nft/generation.ts'
import { openNft } from './nft/session.ts'
import type { Skeleton } from './nft/skeleton.ts'
import { type Facility, joinDrivers, type Plane } from './plane.ts'
import { NO_LEASES, openResponder, type ResponderDriver } from './responder/driver.ts'
import { NO_SHAPING, openShaping } from './shaping/open.ts'

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
  /** false: the rules of the firewall are judged by nft, also where the kernel could do better. Default: true. */
  classifier?: boolean
  /** The same of the load balancer. */
  balancer?: boolean
  /** How programs are attached to devices, for tests; unless given, as the kernel can. */
  attach?: Form
  /** Path of the control socket of the process that answers DNS and DHCP. */
  responderSocket: string
  /** Where FRR's programs are, and a directory for the sockets of its daemons; without it nobody speaks BGP. */
  frr?: FrrPlaces
  /** Told when a driver has lost by itself what it held, so that it must be brought to what shall be. */
  onLoss(): void
  /** An open file that the nft helper keeps open as long as it lives. */
  lock?: number
}

export async function openKernel(options: KernelOptions): Promise<Plane> {
  const { skeletons, owners, lock, onProblem } = options
  let restarts = 0
  // It tries a process, while this one loads programs.
  const responding = attempt('responder', 'answers DNS and DHCP', () =>
    openResponder({ path: options.responderSocket, onProblem: options.onProblem, onLoss: options.onLoss }),
  )
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
  const writing =
    sockets && (await attempt('netlink', reading.facility.detail, () => openNetlinkDriver({ owners, onProblem })))
  const netlink = writing ?? reading
  const bonding = await attempt('bonding', 'bonds', async () => {
    if (!sockets || !writing?.value) throw new Error('needs netlink')
    const why = await whyNoBonds(sockets.route)
    if (why !== undefined) throw new Error(why)
  })
  const driver = nft.value && nftDriver(nft.value.session, skeletons, nft.value.generation)
  const { bpfDir: root } = options
  const attach = await attempt('attach', '', () =>
    openAttaching({ ...(options.attach && { form: options.attach }), onProblem }),
  )
  const attaching = attach.value
  // Whoever waits for the verifier does not wait for the other.
  const [port, { classifier, balancer }] = await Promise.all([
    attempt('port', 'programs on the ports of br-work', async () => {
      if (!sockets || !driver) throw new Error('needs netlink and nft')
      if (!attaching) throw new Error(attach.facility.detail)
      const { route } = sockets
      return openPorts({ root, route, nft: driver.beside, attaching, owners: options.portKinds, onProblem })
    }),
    openJudges(options, driver !== undefined, sockets?.route, attach),
  ])
  const shut =
    sockets && driver && !port.value
      ? shutPorts({ root, route: sockets.route, nft: driver.beside, why: port.facility.detail, onProblem })
      : undefined
  const balancing = balancer.value
  const balancers = balancing?.balancer ?? byNft(balancer.facility.detail)
  const shaping = await attempt('shaping', 'bandwidth limits and quotas', async () => {
    if (!port.value || !attaching || !writing?.value) {
      throw new Error('needs netlink and the programs on the ports of br-work')
    }
    return openShaping({ programs: port.value.programs, attaching, area: 'bandwidth', onProblem })
  })
  const responder = await responding
  const bgp = await attempt('bgp', 'speaks BGP and BFD', async () => {
    if (!options.frr) throw new Error('has no place for FRR')
    return openFrr({ ...options.frr, onProblem, onLoss: options.onLoss })
  })
  // What judges packets comes before what lets them in: after a reboot nothing passes unjudged.
  const judging = classifier.value
  const drivers = [
    ...[judging?.rules, driver, judging?.defaults],
    ...[port.value?.driver ?? shut, balancing?.driver, writing?.value],
    // Both take long where there is much to do: one in the kernel, the other in its process.
    [shaping.value?.driver, responder.value].filter((it) => it !== undefined),
    ...[forwardingDriver(), bgp.value],
    // Without nft nobody would balance and judge in their place.
    driver && !balancing ? leftBalancer(root, attaching) : undefined,
    driver && !judging
      ? leftClassifier(
          () => classifierAttached(root),
          () => takeOffClassifier(root),
        )
      : undefined,
  ].filter((it) => it !== undefined)
  const plane = joinDrivers(drivers, () => [
    { ...nft.facility, restarts },
    netlink.facility,
    bonding.facility,
    { ...classifier.facility, ...(judging && { detail: judging.filter.detail() }) },
    portFacility(port.facility, attaching),
    { ...balancer.facility, ...(balancing && { detail: balancers.detail() }) },
    shaping.facility,
    responderFacility(responder),
    { ...bgp.facility, restarts: bgp.value?.restarts() ?? 0 },
  ])
  const tracked = sockets ? openConnections(sockets.route, sockets.netfilter) : NO_CONNECTIONS
  return {
    ...plane,
    apply: inTurn(plane.apply),
    filter: judging?.filter ?? NO_FILTER,
    connections: balancing ? joinConnections(tracked, balancing.connections) : tracked,
    defaultRoute: sockets?.defaultRoute ?? NO_DEFAULT_ROUTE,
    devices: sockets ? openDevices(sockets.route, sockets.generic) : NO_DEVICES,
    ports: port.value?.ports ?? NO_PORTS,
    traffic: port.value?.traffic ?? NO_TRAFFIC,
    balancer: balancers,
    shaping: shaping.value?.shaping ?? NO_SHAPING,
    leases: responder.value?.leases ?? NO_LEASES,
    bgp: bgp.value?.bgp ?? NO_BGP,
    addExpiring: async (set, elements) => driver?.addExpiring(set, elements),
    holds: async (set, element) => (await driver?.holds(set, element)) ?? false,
    async close() {
      await plane.close()
      await attaching?.close()
      sockets?.defaultRoute.close()
      await sockets?.route.close()
      await sockets?.netfilter.close()
      await sockets?.generic.close()
    },
  }
}

/** The programs of the firewall, and those of the load balancer, which ask them. */
async function openJudges(
  options: KernelOptions,
  hasNft: boolean,
  route: Netlink | undefined,
  attach: { facility: Facility; value?: Attaching },
) {
  const { bpfDir: root, onProblem } = options
  const classifier = await attempt('classifier', 'firewall rules in eBPF', async () => {
    if (options.classifier === false) throw new Error('switched off (STRATUM_CLASSIFIER=off)')
    if (!hasNft) throw new Error('needs nft')
    return openClassifier({ root, onProblem })
  })
  const balancer = await attempt('balancer', 'virtual addresses in eBPF', async () => {
    if (options.balancer === false) throw new Error('switched off (STRATUM_BALANCER=off)')
    if (!route || !classifier.value) throw new Error('needs netlink and the classifier')
    if (!attach.value) throw new Error(attach.facility.detail)
    return openBalancer({ root, route, attaching: attach.value, onProblem })
  })
  return { classifier, balancer }
}

/** Off also while its process, which could be started once, is lost. */
function responderFacility({ facility, value }: { facility: Facility; value?: ResponderDriver }): Facility {
  const problem = value?.problem()
  const restarts = value?.restarts() ?? 0
  return problem === undefined
    ? { ...facility, restarts }
    : { ...facility, restarts, available: false, detail: problem }
}

/** What an operator should know of the ports besides. */
function portFacility(facility: Facility, attaching: Attaching | undefined): Facility {
  if (!facility.available) return { ...facility, detail: `${facility.detail}; no port of br-work carries traffic` }
  const form = `${facility.detail}, attached by ${attaching?.form ?? 'nothing'}`
  const hooks = '; bridged broadcasts meet the IP hooks (bridge_netfilter off ends that)'
  return { ...facility, detail: bridgedFramesMeetHooks() ? `${form}${hooks}` : form }
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
