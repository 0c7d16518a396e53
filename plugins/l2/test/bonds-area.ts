/** The area over a plane in memory whose devices the test makes up. */
import type { Address } from '../../../dataplane/netlink/address.ts'
import type { BondState } from '../../../dataplane/netlink/bond.ts'
import type { Link } from '../../../dataplane/netlink/link.ts'
import { fakePlane } from '../../../dataplane/plane.fake.ts'
import { type BuildAgentOptions, buildArea } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'

export const device = (index: number, name: string, more: Partial<Link> = {}): Link => ({
  ...{ index, name, mtu: 1500, up: true, running: true, group: 0 },
  ...more,
})
const DEVICES = [
  device(1, 'lo'),
  device(2, 'eth0'),
  device(3, 'eth1'),
  device(4, 'eth2', { up: false }),
  device(5, 'br-work', { kind: 'bridge' }),
  device(6, 'tap1', { master: 5 }),
  device(7, 'bond9', { kind: 'bond' }),
  device(8, 'eth3'),
]
export const address = (index: number, cidr: string): Address => ({
  ...{ version: cidr.includes(':') ? 6 : 4, index, cidr, scope: 0, permanent: true, unusable: false, protocol: 0 },
})

export async function bonds(t: Scope, options: BuildAgentOptions & { devices?: Link[]; state?: BondState } = {}) {
  const { devices = [...DEVICES], state, ...rest } = options
  const plane = fakePlane()
  const addresses = [address(3, 'fe80::1/64'), address(8, '192.0.2.8/24')]
  const found = { links: async () => devices, addresses: async () => addresses, bond: async () => state }
  Object.assign(plane, { devices: { ...plane.devices, ...found } })
  const built = await buildArea(t, 'l2', { ...rest, plane, config: { uplink: 'eth0', ...rest.config } })
  const start = built.agent.outbox.bounds().latest
  const ok = async (method: string, path: string, body?: unknown) => {
    const answer = await built.call(method, path, body)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
    return answer.body
  }
  const events = () => built.agent.outbox.after(start, 1000).map(({ type }) => type)
  const ours = () => [...plane.entries.values()].filter(({ key }) => /bond|member/.test(key))
  return { ...built, plane, devices, addresses, ok, events, ours }
}
export const LAN = { id: 'lan', name: 'bond0', mode: 'active-backup' }
