/** Overlays over a plane in memory, on a node with a few addresses. */
import { fakePlane } from '../../../dataplane/plane.fake.ts'
import { type BuildAgentOptions, type BuiltAgent, buildArea } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { snapshot } from '../../../test/rest/snapshot.ts'

export const NETWORKS = '/api/v1/vxlan/networks'
/** The area and those it needs. */
const AREAS = ['node', 'vxlan', 'firewall', 'networks', 'ipam', 'l2']

const LINKS = [
  { index: 1, name: 'lo', mtu: 65_536 },
  { index: 2, name: 'up0', mtu: 1500 },
  { index: 3, name: 'up1', mtu: 9000 },
].map((one) => ({ ...one, up: true, running: true, group: 0 }))

/** Addresses as `<index> <cidr>`. */
export const addresses = (...all: string[]) =>
  all.map((text) => {
    const [index = '', cidr = ''] = text.split(' ')
    const version = cidr.includes(':') ? (6 as const) : (4 as const)
    return { version, index: Number(index), cidr, scope: 0, permanent: true, unusable: false, protocol: 0 }
  })

export interface Vxlan extends BuiltAgent {
  /** Keys of the area in the plane, openings of the firewall included. */
  planned(): string[]
  /** Types of the area's events so far. */
  events(): string[]
  /** What the node's addresses become. */
  renumber(...all: string[]): void
  /** Asserts by throwing that `work` changes neither a row nor the plane, and resolves with its answer. */
  unchanged<T>(work: () => Promise<T>): Promise<T>
}

export async function vxlan(t: Scope, { config, ...options }: BuildAgentOptions = {}): Promise<Vxlan> {
  const plane = fakePlane()
  const here = { addresses: addresses('2 192.0.2.1/24', '2 2001:db8::1/64', '3 198.51.100.1/24') }
  const devices = { ...plane.devices, links: async () => LINKS, addresses: async () => here.addresses }
  Object.assign(plane, { devices })
  const limits = { uplink: 'up0', api_rate_limit: '10000000', api_rate_burst: '1000000' }
  const built = await buildArea(t, 'vxlan', { only: AREAS, plane, ...options, config: { ...limits, ...config } })
  return {
    ...built,
    planned: () => [...plane.entries.keys()].filter((key) => /^vxlan\/|firewall_open/.test(key)).sort(),
    events: () => built.agent.outbox.after(0, 10_000).flatMap(({ type }) => (/^vxlan/.test(type) ? [type] : [])),
    renumber(...all) {
      here.addresses = addresses(...all)
    },
    async unchanged(work) {
      const before = JSON.stringify(snapshot(built))
      const result = await work()
      if (JSON.stringify(snapshot(built)) !== before) throw new Error(`something changed, although ${String(work)}`)
      return result
    },
  }
}
