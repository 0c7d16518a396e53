/**
 * A node between a client outside and a LAN with two machines, IPv4 and IPv6:
 * client — `wan0` node `lan0` — server, mate. What is behind `lan0` has the node as its gateway.
 */
import { type RunningAgent, startAgent } from '../../../test/agent.ts'
import { type Netns, netns, type Scope, veth } from '../../../test/netns.ts'
import type { Forward, NatRule, Snat } from '../schemas.ts'
import { FORWARD, SNAT } from './area.ts'
import { serve } from './host.ts'

export const PUBLIC = { 4: '192.168.7.1', 6: 'fd07::1' }
export const LAN = { 4: '10.9.0.1', 6: 'fd09::1' }
export const CLIENT = { 4: '192.168.7.2', 6: 'fd07::2' }
export const SERVER = { 4: '10.9.0.2', 6: 'fd09::2' }
export const MATE = { 4: '10.9.0.3', 6: 'fd09::3' }
export const FAMILIES = [4, 6] as const
export const PROTOCOLS = ['tcp', 'udp'] as const

export interface Lab {
  node: Netns
  client: Netns
  server: Netns
  mate: Netns
  agent: RunningAgent
  /** Throws unless 201; returns the id. */
  forward(dest_ip: string, dest_port: number, target_ip: string, target_port: number): Promise<number>
  snat(source_cidr: string, device?: string): Promise<number>
  /** Throws unless 200. */
  remove(path: string): Promise<void>
  rules(): Promise<NatRule[]>
  /** Elements of a set or map of the area, sorted, as nft lists them. */
  held(name: string): string[]
}

/** Everybody serves on port 8080. */
export async function lab(t: Scope): Promise<Lab> {
  const [node, client, server, mate] = [machine(t, 'n'), machine(t, 'c'), machine(t, 's'), machine(t, 'm')]
  node.run('sysctl', '-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1')
  const cidrs = (host: Record<4 | 6, string>) => [`${host[4]}/24`, `${host[6]}/64`]
  // What is bridged meets no IP hook, as on a node without br_netfilter: with it a packet back to its own port is bridged,
  // which takes the hairpin mode of that port.
  node.run('sysctl', '-qew', 'net.bridge.bridge-nf-call-iptables=0', 'net.bridge.bridge-nf-call-ip6tables=0')
  veth(t, { ns: node, name: 'wan0', addr: cidrs(PUBLIC) }, { ns: client, name: 'eth0', addr: cidrs(CLIENT) })
  node.run('ip', 'link', 'add', 'lan0', 'type', 'bridge')
  for (const [ns, name, host] of [
    [server, 'ps', SERVER],
    [mate, 'pm', MATE],
  ] as const) {
    veth(t, { ns: node, name }, { ns, name: 'eth0', addr: cidrs(host) })
    node.run('ip', 'link', 'set', name, 'master', 'lan0')
  }
  for (const cidr of cidrs(LAN)) node.run('ip', 'address', 'add', cidr, 'dev', 'lan0')
  node.run('ip', 'link', 'set', 'lan0', 'up')
  node.run('ip', 'route', 'add', 'default', 'via', CLIENT[4])
  for (const ns of [server, mate]) {
    ns.run('ip', 'route', 'add', 'default', 'via', LAN[4])
    ns.run('ip', '-6', 'route', 'add', 'default', 'via', LAN[6])
  }
  // Without these the client answers only to its neighbours: what is not translated shows as such.
  client.run('ip', 'route', 'add', '10.9.0.0/24', 'via', PUBLIC[4])
  client.run('ip', '-6', 'route', 'add', 'fd09::/64', 'via', PUBLIC[6])
  const [agent] = await Promise.all([
    startAgent(t, { ns: node }),
    ...(
      [
        [client, 'client'],
        [server, 'server'],
        [mate, 'mate'],
      ] as const
    ).map(([ns, name]) => serve(ns, name, 8080)),
  ])
  const made = async (path: string, body: object) => {
    const answer = await agent.call('POST', path, body)
    if (answer.status !== 201) throw new Error(`POST ${path}: ${answer.status} ${answer.text}`)
    return answer.body
  }
  return {
    ...{ node, client, server, mate, agent },
    forward: async (dest_ip, dest_port, target_ip, target_port) =>
      ((await made(FORWARD, { dest_ip, dest_port, target_ip, target_port })).port_forward as Forward).id,
    snat: async (source_cidr, device) =>
      ((await made(SNAT, { source_cidr, ...(device && { interface: device }) })).rule as Snat).id,
    async remove(path) {
      const answer = await agent.call('DELETE', path)
      if (answer.status !== 200) throw new Error(`DELETE ${path}: ${answer.status} ${answer.text}`)
    },
    rules: async () => (await agent.call('GET', SNAT)).body.nat_rules as NatRule[],
    held: (name) => held(node, name),
  }
}

function held(node: Netns, name: string): string[] {
  const kind = name.startsWith('nat_forward') ? 'map' : 'set'
  const [, inner = ''] = /elements = \{([^}]*)\}/.exec(node.run('nft', 'list', kind, 'inet', 'stratum', name)) ?? []
  return inner
    .split(',')
    .map((text) => text.trim().replace(/\s+/g, ' '))
    .filter((text) => text !== '')
    .sort()
}

/** Its addresses work at once. */
function machine(t: Scope, label: string): Netns {
  const ns = netns(t, label)
  ns.run('sysctl', '-qw', 'net.ipv6.conf.default.accept_dad=0', 'net.ipv6.conf.all.accept_dad=0')
  return ns
}
