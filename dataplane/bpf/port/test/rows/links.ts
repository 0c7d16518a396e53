/** Whose a link-local address is: a2 has claimed fe80::a2. */
import { discovery, ethernet, ipv6, linkOption, TYPE, udp } from '../packet.ts'
import { MAC, NET, SLOT, type World } from '../world.ts'
import { drop, pass, type Row, rowsAt } from './row.ts'

const row = rowsAt('port_in')
const [SOLICITATION, ADVERTISEMENT, ICMP, UDP] = [135, 136, 58, 17]
const ALL_NODES = '33:33:00:00:00:01'
const EUI64 = { a1: 'fe80::ce:aff:fe00:2', a2: 'fe80::ce:aff:fe00:3' } as const
const UNSPECIFIED = '::'
const CLAIMED = 'fe80::a2'
const NEW = 'fe80::7:8'

const by = (mac: string, packet: Uint8Array) => ethernet(ALL_NODES, mac, TYPE.ipv6, packet)
const from = (address: string, mac: string = MAC.a1) => by(mac, ipv6(address, 'ff02::1', UDP, udp(5, 6)))
const asks = (target: string, source: string = UNSPECIFIED) =>
  by(MAC.a1, ipv6(source, 'ff02::1:ff00:1', ICMP, discovery(SOLICITATION, target)))
const answers = (target: string, source: string = EUI64.a1) =>
  by(MAC.a1, ipv6(source, 'ff02::1', ICMP, discovery(ADVERTISEMENT, target, linkOption(2, MAC.a1))))
const icmp = (type: number, source: string = UNSPECIFIED) =>
  by(MAC.a1, ipv6(source, 'ff02::1', ICMP, Buffer.from([type, 0, 0, 0, 0, 0, 0, 0])))

const has = (slot: number, id: string) => (world: World) => {
  world.links.set(`${NET.a}/${id}`, slot)
  world.claimed.set(slot, id)
}
/** a2 is unbound, or uses another address by now. */
const unbound = ({ truth }: World) => void truth.delete(SLOT.a2)
const moved = ({ claimed }: World) => void claimed.set(SLOT.a2, '00000000000000ff')

export const LINKS: readonly Row[] = [
  row('the EUI-64 address of its MAC', 'a1', from(EUI64.a1), pass(NET.a)),
  row("the EUI-64 address of a neighbour's MAC", 'a1', from(EUI64.a2), drop('ipv6_link')),
  row('the EUI-64 address of a MAC that nobody has', 'a1', from('fe80::ff:fe12:3456'), drop('ipv6_link')),
  row('another address, which becomes its own', 'a1', from(NEW), pass(NET.a)),
  row('its own address again', 'a1', from(NEW), pass(NET.a), { given: has(SLOT.a1, '0000000000070008') }),
  row('another address, and the one before is free', 'a1', from(NEW), pass(NET.a), {
    given: has(SLOT.a1, '0000000000000001'),
  }),
  row('the address that a neighbour has claimed', 'a1', from(CLAIMED), drop('ipv6_link')),
  row('the same by its holder', 'a2', from(CLAIMED, MAC.a2), pass(NET.a)),
  row('the same in another net', 'c1', from(CLAIMED, MAC.c1), pass(NET.c)),
  row('the same once its holder is unbound', 'a1', from(CLAIMED), pass(NET.a), { given: unbound }),
  row('the same once its holder has another', 'a1', from(CLAIMED), pass(NET.a), { given: moved }),
  row('a claim of a slot that the map does not show', 'a2', from(CLAIMED, MAC.a2), pass(NET.a), {
    given: ({ links }) => links.clear(),
  }),
  row('an address outside of fe80::/64', 'a1', from('fe80:0:0:1::5'), drop('ipv6_link')),
  row('the highest link-local address', 'a1', from('febf::2'), drop('ipv6_link')),
  row('interface id 0', 'a1', from('fe80::'), drop('ipv6_link')),

  row('detection of a duplicate of its EUI-64 address', 'a1', asks(EUI64.a1), pass(NET.a)),
  row('detection of a duplicate of another address', 'a1', asks(NEW), pass(NET.a)),
  row("detection of a duplicate of a neighbour's EUI-64 address", 'a1', asks(EUI64.a2), drop('ipv6_target')),
  row('detection of a duplicate of a claimed address', 'a1', asks(CLAIMED), drop('ipv6_target')),
  row("the question who has a neighbour's address", 'a1', asks(CLAIMED, EUI64.a1), pass(NET.a)),
  row('an answer for its EUI-64 address', 'a1', answers(EUI64.a1), pass(NET.a)),
  row('an answer for another address, which becomes its own', 'a1', answers(NEW), pass(NET.a)),
  row("an answer for a neighbour's EUI-64 address", 'a1', answers(EUI64.a2), drop('ipv6_target')),
  row('an answer for a claimed address', 'a1', answers(CLAIMED), drop('ipv6_target')),
  row('an answer without address', 'a1', answers(EUI64.a1, UNSPECIFIED), drop('zero_address')),

  ...[131, 132, 133, 143].map((type) => row(`ICMPv6 ${type} without address`, 'a1', icmp(type), pass(NET.a))),
  row('an echo request without address', 'a1', icmp(128), drop('zero_address')),
  row('UDP without address', 'a1', from(UNSPECIFIED), drop('zero_address')),
]
