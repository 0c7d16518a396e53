/**
 * A node with overlays: the real agent, workloads on `br-work`, and other nodes, which are plain Linux with VXLAN devices
 * made by iproute2, all on one switch.
 */
import { type Netns, netns, type Scope, veth } from '../../../test/netns.ts'
import { type WorkloadNode, workloadNode } from '../../../test/workload.ts'

export const NETWORKS = '/api/v1/vxlan/networks'

/** A machine behind a tunnel. */
export interface Remote {
  ns: Netns
  /** Its VTEP. */
  vtep: string
  /** Makes a device of a VNI there that sends to the node, with a MAC and addresses of its own. */
  tunnel(vni: number, options: { mac?: string; address: string; name?: string }): void
  pings(address: string): boolean
  /** The same for what must be so soon: waits up to ten seconds. */
  reaches(address: string): boolean
}

export interface Fdb {
  mac: string
  vni: number
  vtep_ip: string
}

export interface Site extends WorkloadNode {
  fabric: Netns
  /** Puts another node onto the switch; `n` is the last part of its address. */
  remote(n: number): Remote
  /** Sorted by VNI, MAC and VTEP. */
  fdb(): Promise<Fdb[]>
  /** What the kernel holds of overlays: devices, permanent forwarding, elements of the sets. */
  /** Makes an overlay with peers, `host` being the VTEP. */
  overlay(
    vni: number,
    fields: object,
    ...peers: readonly { vtep: string; mac?: string }[]
  ): Promise<Record<string, unknown>>
  kernel(): { devices: string[]; fdb: string[]; vteps: string[] }
}

/** `family` of the underlay. The node is 192.0.2.1 or 2001:db8::1. `main`: see AgentOptions. */
export async function site(
  t: Scope,
  family: 4 | 6 = 4,
  config: Record<string, string> = {},
  main?: string,
): Promise<Site> {
  const [ns, fabric] = [netns(t, 'vxn'), netns(t, 'vxf')]
  const address = (n: number) => (family === 4 ? `192.0.2.${n}` : `2001:db8::${n}`)
  const length = family === 4 ? 24 : 64
  fabric.run('ip', 'link', 'add', 'switch', 'type', 'bridge', 'mcast_snooping', '0')
  fabric.run('ip', 'link', 'set', 'switch', 'up')
  const join = (on: Netns, name: string, n: number) => {
    veth(t, { ns: on, name, addr: `${address(n)}/${length}` }, { ns: fabric, name: `port${n}` })
    fabric.run('ip', 'link', 'set', `port${n}`, 'master', 'switch')
  }
  join(ns, 'up0', 1)
  const node = await workloadNode(t, { ns, config: { uplink: 'up0', ...config }, ...(main && { main }) })
  return {
    ...node,
    fabric,
    remote(n) {
      const other = netns(t, `vxr${n}`)
      join(other, 'up0', n)
      const echo = (patience: string[], to: string) => {
        try {
          other.run('ping', '-n', '-q', '-c', '1', ...patience, to)
          return true
        } catch {
          return false
        }
      }
      return {
        ns: other,
        vtep: address(n),
        tunnel(vni, { mac, address: inner, name = `vx${vni}` }) {
          const ends = ['local', address(n), 'remote', address(1), 'dstport', '4789']
          const own = mac === undefined ? [] : ['address', mac]
          other.run('ip', 'link', 'add', name, ...own, 'type', 'vxlan', 'id', String(vni), ...ends)
          other.run('ip', 'address', 'add', inner, 'dev', name)
          other.run('ip', 'link', 'set', name, 'up')
        },
        pings: (to) => echo(['-W', '1'], to),
        reaches: (to) => echo(['-i', '0.2', '-w', '10'], to),
      }
    },
    async fdb() {
      const { fdb } = (await node.ok('GET', '/api/v1/vxlan/fdb')) as { fdb: Fdb[] }
      const text = ({ mac, vni, vtep_ip }: Fdb) => `${vni} ${mac} ${vtep_ip}`
      return fdb.sort((a, b) => (text(a) < text(b) ? -1 : 1))
    },
    async overlay(vni, fields, ...peers) {
      const made = await node.ok('POST', NETWORKS, { vni, ...fields })
      for (const { vtep, mac = '' } of peers) {
        await node.ok('POST', `${NETWORKS}/${vni}/peers`, { host: vtep, vtep_ip: vtep, mac })
      }
      return made
    },
    kernel: () => kernelOf(ns),
  }
}

function kernelOf(ns: Netns): ReturnType<Site['kernel']> {
  const links = JSON.parse(ns.run('ip', '-j', '-d', 'link', 'show', 'type', 'vxlan') || '[]') as {
    ifname?: string
    mtu: number
    master?: string
    operstate: string
    linkinfo: { info_data: { id: number; port: number; local?: string; local6?: string }; info_slave_data?: object }
  }[]
  const named = links.filter(({ ifname }) => ifname !== undefined)
  const devices = named.map(({ ifname, mtu, master, linkinfo: { info_data: it, info_slave_data: port } }) => {
    const isolated = (port as { isolated?: boolean } | undefined)?.isolated === true
    return `${ifname} ${it.id} ${it.port} ${it.local ?? it.local6} mtu ${mtu} ${master}${isolated ? ' isolated' : ''}`
  })
  const fdb = named.flatMap(({ ifname = '' }) =>
    ns
      .run('bridge', 'fdb', 'show', 'dev', ifname)
      .split('\n')
      .filter((line) => /dst .*self permanent/.test(line))
      .map((line) => `${ifname} ${line.replace(/ (self|permanent|link-netnsid \d+|via \S+)/g, '').trim()}`),
  )
  const vteps = [4, 6].flatMap((family) => {
    const listed = ns.run('nft', 'list', 'set', 'inet', 'stratum', `vxlan_vteps${family}`)
    return /elements = \{([^}]*)\}/.exec(listed)?.[1]?.match(/[^\s,]+/g) ?? []
  })
  return { devices: devices.sort(), fdb: fdb.sort(), vteps: vteps.sort() }
}
