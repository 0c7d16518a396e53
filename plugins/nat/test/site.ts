/**
 * A node with machines in private networks and a client behind its uplink `wan0`. Machine `a` of network `lab` serves port
 * 8080; {@link PUBLISHED}:80 leads to who is published.
 */
import { type Netns, netns, type Scope, veth } from '../../../test/netns.ts'
import { type Guest, type WorkloadNode, workloadNode } from '../../../test/workload.ts'
import { FORWARD } from './area.ts'
import { serve } from './host.ts'

export const PUBLISHED = '192.168.7.1'

export interface Member {
  ns: Netns
  guest: Guest
  ip: string
  mac: string
}

export interface Site {
  node: WorkloadNode
  client: Netns
  /** Makes a network `10.<number>.0.0/24` with the host gateway; returns its id. */
  network(number: number, more?: object): Promise<string>
  /** A machine of a network that {@link Site.network} made, at `10.<number>.0.<host>`, with the node as its gateway. */
  member(network: string, number: number, host: number): Promise<Member>
  /** Publishes a machine's port 8080 as {@link PUBLISHED}:80; returns the forward's id. */
  publish(target: Member): Promise<number>
}

/** Bridged frames meet the IP hooks, as they do on a node where others have loaded br_netfilter. */
export async function site(t: Scope): Promise<Site> {
  const node = await workloadNode(t, { config: { uplink: 'wan0' } })
  node.ns.run('sysctl', '-qew', 'net.bridge.bridge-nf-call-iptables=1', 'net.bridge.bridge-nf-call-ip6tables=1')
  const client = netns(t, 'client')
  veth(t, { ns: node.ns, name: 'wan0', addr: `${PUBLISHED}/24` }, { ns: client, name: 'eth0', addr: '192.168.7.2/24' })
  return {
    node,
    client,
    async network(number, more = {}) {
      const { network } = await node.ok('POST', '/api/v1/networks', {
        ...{ name: `net${number}`, cidr: `10.${number}.0.0/24`, gateway: `10.${number}.0.1`, host_gateway: true },
        ...more,
      })
      return (network as { id: string }).id
    },
    async member(network, number, host) {
      const [ip, mac] = [`10.${number}.0.${host}`, `02:00:00:00:0${number}:0${host}`]
      const guest = node.guest(`m${number}`, { mac, addresses: [`${ip}/24`], gateway: `10.${number}.0.1` })
      await node.ok('POST', '/control/v1/compute/machines', {
        ...{ machine: guest.port, network, ip, port: guest.port, mac },
      })
      await node.inNetwork(guest)
      return { ns: guest.ns, guest, ip, mac }
    },
    async publish(target) {
      await serve(target.ns, 'a', 8080)
      const { port_forward } = await node.ok('POST', FORWARD, {
        ...{ dest_ip: PUBLISHED, dest_port: 80, target_ip: target.ip, target_port: 8080 },
      })
      return (port_forward as { id: number }).id
    },
  }
}

/** What the node knows of how to reach a neighbour; `none`: nothing. */
export const NEIGHBOUR_STATES = ['reachable', 'stale', 'delay', 'none'] as const

/** Sets the entries of machines in the node's neighbour table. */
export function setNeighbours(node: Netns, state: (typeof NEIGHBOUR_STATES)[number], members: readonly Member[]): void {
  for (const { ip, mac } of members) {
    if (state === 'none') node.run('ip', 'neighbour', 'flush', 'to', ip, 'dev', 'br-work')
    else node.run('ip', 'neighbour', 'replace', ip, 'lladdr', mac, 'dev', 'br-work', 'nud', state)
  }
}
