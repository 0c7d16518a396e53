import '../../../../test/inside.ts'
import { isDeepStrictEqual } from 'node:util'
import t, { type Test } from 'tap'
import { requireRoot } from '../../../../test/netns.ts'
import type { Hook } from '../maps.ts'
import { changeable } from './loaded.ts'
import { arp, BROADCAST, discovery, ethernet, extension, ipv4, ipv6, linkOption, TYPE, udp } from './packet.ts'
import { refer } from './reference.ts'
import { stamp } from './rows/row.ts'
import { type Packet, stage } from './stage.ts'
import { IP, MAC, NET, PORT, world } from './world.ts'

const IPV4 = ipv4(IP.a1, IP.a2, 17, udp(67, 68), { options: Buffer.alloc(8, 1) })
const DHCP = ipv4('0.0.0.0', '255.255.255.255', 17, udp(68, 67))
const ARP = arp(1, { mac: MAC.a1, ip: IP.a1 }, { ip: IP.gatewayA })
const SOLICITATION = discovery(135, 'fe80::9', linkOption(1, MAC.a1), Buffer.from('0e01aabbccddeeff', 'hex'))
const IPV6 = ipv6('fe80::1', 'ff02::1', 60, extension(0, extension(58, SOLICITATION)))
const TAGS = [[], [{ vid: 8 }], [{ vid: 8, type: TYPE.service }, { vid: 9 }]]
const FRAMES = TAGS.flatMap((tags) => [
  ethernet(MAC.a2, MAC.a1, TYPE.ipv4, IPV4, tags),
  ethernet(BROADCAST, MAC.a1, TYPE.ipv4, DHCP, tags),
  ethernet(BROADCAST, MAC.a1, TYPE.arp, ARP, tags),
  ethernet(BROADCAST, MAC.a1, TYPE.ipv6, IPV6, tags),
])
const MARK = stamp(NET.a)
const PLACES: readonly Omit<Packet, 'data'>[] = [
  { hook: 'port_in', ifindex: PORT.a1 },
  { hook: 'port_in', ifindex: PORT.o1 },
  { hook: 'port_out', ifindex: PORT.a2, mark: MARK },
  { hook: 'uplink_in', ifindex: PORT.uplink },
  { hook: 'uplink_out', ifindex: PORT.uplink, mark: MARK },
  { hook: 'host_in', ifindex: PORT.bridge, mark: MARK },
  { hook: 'host_out', ifindex: PORT.bridge, mark: MARK },
]

requireRoot(t)

/** Plays the packets, one after the other in one world, and compares with the reference. How many there were. */
async function all(t: Pick<Test, 'same' | 'teardown'>, packets: Iterable<Packet>): Promise<number> {
  const [play, here] = [await stage(t), world()]
  play.set(here)
  const differences: string[] = []
  let count = 0
  for (const packet of packets) {
    count++
    const want = refer(here, packet)
    const { verdict, reasons, to, mark } = await play.run(packet)
    const is = { verdict, reasons, to, mark }
    if (!isDeepStrictEqual(is, want))
      differences.push(
        `${packet.data.toString('hex')} at ${packet.hook}: ${JSON.stringify(is)}, not ${JSON.stringify(want)}`,
      )
  }
  t.same(differences.slice(0, 10), [])
  t.same(play.changes(here), changeable(here))
  return count
}

t.test('frames cut at every byte', async (t) => {
  function* cut(): Generator<Packet> {
    for (const place of PLACES)
      for (const frame of place.hook === 'port_in' ? FRAMES : FRAMES.slice(4, 8))
        for (let length = 14; length <= frame.length; length++) yield { ...place, data: frame.subarray(0, length) }
  }
  const count = await all(t, cut())
  t.ok(count > 1500, `${count} frames`)
})

t.test('every first byte of IPv4 and IPv6', async (t) => {
  function* lying(): Generator<Packet> {
    for (let first = 0; first < 256; first++) {
      for (const [n, at] of [
        [0, 14],
        [3, 14],
        [4, 18],
      ] as const) {
        const data = Buffer.from(FRAMES[n] ?? [])
        data[at] = first
        yield { hook: 'port_in' satisfies Hook, ifindex: PORT.a1, data }
      }
    }
  }
  await all(t, lying())
})

t.test('every byte of the fixed part of ARP', async (t) => {
  function* lying(): Generator<Packet> {
    for (let at = 0; at < 8; at++) {
      for (const value of [0, 1, 4, 6, 8, 255]) {
        const data = Buffer.from(FRAMES[2] ?? [])
        data[14 + at] = value
        yield { hook: 'port_in' satisfies Hook, ifindex: PORT.a1, data }
      }
    }
  }
  await all(t, lying())
})
