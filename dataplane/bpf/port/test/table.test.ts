import '../../../../test/inside.ts'
import t from 'tap'
import { requireRoot } from '../../../../test/netns.ts'
import { changeable } from './loaded.ts'
import { refer } from './reference.ts'
import { BINDINGS } from './rows/bindings.ts'
import { DELIVERIES } from './rows/deliveries.ts'
import { DHCP } from './rows/dhcp.ts'
import { FORMERS, REFUSALS } from './rows/former.ts'
import { HOST_IN, HOST_OUT } from './rows/host.ts'
import { IPV4_AND_ARP } from './rows/ip.ts'
import { IPV6 } from './rows/ipv6.ts'
import { LINKS } from './rows/links.ts'
import { LLC } from './rows/llc.ts'
import { MACBINDS } from './rows/macbinds.ts'
import { OPEN_UP, OUTSIDE, PEERS } from './rows/open.ts'
import { OVERLAY_IN, OVERLAY_OUT } from './rows/overlays.ts'
import { datagram, type Row } from './rows/row.ts'
import { TENANTS } from './rows/tenants.ts'
import { UPLINK_IN, UPLINK_OUT } from './rows/uplinks.ts'
import { VLANS } from './rows/vlans.ts'
import { WAYS } from './rows/ways.ts'
import { stage } from './stage.ts'
import { IP, MAC, PORT, world } from './world.ts'

const TABLES: Readonly<Record<string, readonly Row[]>> = {
  'MACs, addresses and ports (net-27)': BINDINGS,
  'the way of a frame': WAYS,
  'IPv4 and ARP': IPV4_AND_ARP,
  DHCP,
  'what is wrapped in LLC/SNAP': LLC,
  IPv6: IPV6,
  'link-local addresses': LINKS,
  'tags of workloads (vlan-02, vlan-03)': VLANS,
  'MAC bindings (macbind-04, macbind-05)': MACBINDS,
  'blocked and limited tenants': TENANTS,
  'what workloads get': DELIVERIES,
  'what comes from off the node': UPLINK_IN,
  'what leaves the node': UPLINK_OUT,
  'what comes in by tunnels': OVERLAY_IN,
  'what leaves by tunnels (vxlan-12)': OVERLAY_OUT,
  'what goes up to the node': HOST_IN,
  'what an open port says to the node': OPEN_UP,
  'MACs behind uplinks': OUTSIDE,
  'open ports to peers of overlays': PEERS,
  'clients of MACs that are bound no more (dhcp-05)': FORMERS,
  'the answers to them': REFUSALS,
  'what the node sends': HOST_OUT,
}

/** Those fields of `whole` that `part` has. */
const picked = <T extends object>(whole: T, part: Partial<T>) =>
  Object.fromEntries(Object.entries(whole).filter(([key]) => key in part))

requireRoot(t)

for (const [name, rows] of Object.entries(TABLES)) {
  t.test(`what the programs do with ${name}`, async (t) => {
    const play = await stage(t)
    for (const { name, given, packet, want } of rows) {
      const before = world()
      given?.(before)
      play.set(before)
      const played = await play.run(packet)
      const wanted = { reasons: [], ...want }
      t.same(picked(played, wanted), wanted, name)
      const referred = refer(before, packet)
      t.same(picked(played, referred), referred, `${name}: the reference says the same`)
      t.same(play.changes(before), changeable(before), `${name}: and changes the same`)
    }
  })
}

t.test('a MAC that is heard behind an uplink in a third second is refused at open ports from then on', async (t) => {
  const play = await stage(t)
  const nobody = { data: datagram(MAC.nobody, MAC.o2, IP.o1, IP.o2), mark: 0 } as const
  const fromOpen = { ...nobody, hook: 'port_in', ifindex: PORT.o1 } as const
  play.set(world())
  play.maps.outside.set(MAC.nobody, { heard: process.hrtime.bigint() - 2_000_000_000n, times: 2 })
  t.equal((await play.run(fromOpen)).verdict, 'pass')
  await play.run({ ...nobody, hook: 'uplink_in', ifindex: PORT.uplink })
  t.match(await play.run(fromOpen), { verdict: 'drop', reasons: ['outside_mac'] })
})
