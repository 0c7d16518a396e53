/** What a bound MAC may say by IPv6. */
import { discovery, ethernet, extension, ipv6, linkOption, TYPE, udp } from '../packet.ts'
import { MAC, NET } from '../world.ts'
import { drop, pass, type Row, redirect, rowsAt } from './row.ts'

const LINK_LOCAL = 'fe80::ce:aff:fe00:2'
const ALL_NODES = '33:33:00:00:00:01'
const NO_NEXT = 59
const ICMP = 58
const [UDP, DESTINATION, FRAGMENT, ROUTING] = [17, 60, 44, 43]
const TYPES = { routerSolicitation: 133, advertisement: 134, solicitation: 135, neighbour: 136, redirect: 137 } as const

const row = rowsAt('port_in')
const say = (packet: Uint8Array, to: string = ALL_NODES) => ethernet(to, MAC.a1, TYPE.ipv6, packet)
const icmp = (message: Uint8Array, from: string = LINK_LOCAL) => say(ipv6(from, 'ff02::1', ICMP, message))
const own = linkOption(1, MAC.a1)
const NONCE = Buffer.from('0e01aabbccddeeff', 'hex')
const advertisement = discovery(TYPES.advertisement, undefined, Buffer.alloc(8))
/** `count` extension headers in front of `payload`, whose protocol is `next`. */
const behind = (count: number, next: number, payload: Uint8Array): Uint8Array =>
  count === 0 ? payload : extension(count === 1 ? next : DESTINATION, behind(count - 1, next, payload))

export const IPV6: readonly Row[] = [
  row('solicitation with its own MAC', 'a1', icmp(discovery(TYPES.solicitation, 'fe80::3', own)), pass(NET.a)),
  row('solicitation with another MAC', 'a1', icmp(discovery(135, 'fe80::3', linkOption(1, MAC.a2))), drop('ipv6')),
  row('solicitation without option', 'a1', icmp(discovery(135, 'fe80::3')), pass(NET.a)),
  row(
    'another MAC behind a harmless option',
    'a1',
    icmp(discovery(135, 'fe80::3', NONCE, linkOption(1, MAC.a2))),
    drop('ipv6'),
  ),
  row('its own MAC and a nonce', 'a1', icmp(discovery(135, 'fe80::3', NONCE, own)), pass(NET.a)),
  row('four options', 'a1', icmp(discovery(135, 'fe80::3', NONCE, NONCE, NONCE, own)), pass(NET.a)),
  row('five options', 'a1', icmp(discovery(135, 'fe80::3', NONCE, NONCE, NONCE, NONCE, own)), drop('ipv6')),
  row('an option of length 0', 'a1', icmp(discovery(135, 'fe80::3', Buffer.alloc(8))), drop('malformed')),
  row('an option that ends too early', 'a1', icmp(discovery(135, 'fe80::3', own)).subarray(0, 84), drop('short')),
  row(
    'what stands behind the payload is no option',
    'a1',
    say(ipv6(LINK_LOCAL, 'ff02::1', ICMP, discovery(135, 'fe80::3', linkOption(1, MAC.a2)), 24)),
    pass(NET.a),
  ),
  row('duplicate address detection', 'a1', icmp(discovery(135, 'fe80::3'), '::'), pass(NET.a)),
  row('solicitation of a global address', 'a1', icmp(discovery(135, '2001:db8::1', own)), drop('ipv6')),
  row('advertisement of itself', 'a1', icmp(discovery(TYPES.neighbour, 'fe80::3', linkOption(2, MAC.a1))), pass(NET.a)),
  row('advertisement with another MAC', 'a1', icmp(discovery(136, 'fe80::3', linkOption(2, MAC.a2))), drop('ipv6')),
  row(
    'advertisement of a global address',
    'a1',
    icmp(discovery(136, '2001:db8::1', linkOption(2, MAC.a1))),
    drop('ipv6'),
  ),
  row('a target that ends too early', 'a1', icmp(discovery(136, 'fe80::3')).subarray(0, 70), drop('short')),
  row(
    'a payload length that ends within the target',
    'a1',
    say(ipv6(LINK_LOCAL, 'ff02::1', ICMP, discovery(136, 'fe80::3'), 20)),
    drop('short'),
  ),
  row('router solicitation', 'a1', icmp(discovery(TYPES.routerSolicitation, undefined, own)), pass(NET.a)),
  row(
    'router solicitation with another MAC',
    'a1',
    icmp(discovery(133, undefined, linkOption(1, MAC.a2))),
    drop('ipv6'),
  ),
  row('router advertisement', 'a1', icmp(advertisement), drop('ipv6_router')),
  row('redirect', 'a1', icmp(discovery(TYPES.redirect, 'fe80::3', Buffer.alloc(16))), drop('ipv6_router')),
  row(
    'router advertisement behind two extension headers',
    'a1',
    say(ipv6(LINK_LOCAL, 'ff02::1', DESTINATION, behind(2, ICMP, advertisement))),
    drop('ipv6_router'),
  ),
  row(
    'router advertisement behind a long extension header',
    'a1',
    say(ipv6(LINK_LOCAL, 'ff02::1', DESTINATION, extension(ICMP, advertisement, 3))),
    drop('ipv6_router'),
  ),
  row(
    'router advertisement behind a routing header',
    'a1',
    say(ipv6(LINK_LOCAL, 'ff02::1', ROUTING, extension(ICMP, advertisement))),
    drop('ipv6_router'),
  ),
  row(
    'four extension headers',
    'a1',
    say(ipv6(LINK_LOCAL, 'fe80::9', DESTINATION, behind(4, UDP, udp(5, 6))), MAC.a2),
    redirect('a2', NET.a),
  ),
  row(
    'five extension headers',
    'a1',
    say(ipv6(LINK_LOCAL, 'fe80::9', DESTINATION, behind(5, UDP, udp(5, 6)))),
    drop('ipv6_hidden'),
  ),
  row(
    'a fragment',
    'a1',
    say(ipv6(LINK_LOCAL, 'ff02::1', FRAGMENT, extension(ICMP, advertisement))),
    drop('ipv6_hidden'),
  ),
  row(
    'a fragment behind an extension header',
    'a1',
    say(ipv6(LINK_LOCAL, 'ff02::1', DESTINATION, extension(FRAGMENT, extension(ICMP, advertisement)))),
    drop('ipv6_hidden'),
  ),
  row(
    'an authentication header',
    'a1',
    say(ipv6(LINK_LOCAL, 'ff02::1', 51, extension(ICMP, advertisement))),
    drop('ipv6_hidden'),
  ),
  row(
    'a mobility header',
    'a1',
    say(ipv6(LINK_LOCAL, 'ff02::1', 135, extension(ICMP, advertisement))),
    drop('ipv6_hidden'),
  ),
  row(
    'an extension header that ends too early',
    'a1',
    say(ipv6(LINK_LOCAL, 'ff02::1', DESTINATION, Buffer.alloc(1))),
    drop('short'),
  ),
  row('nothing behind the header', 'a1', say(ipv6(LINK_LOCAL, 'ff02::1', NO_NEXT, Buffer.alloc(0))), pass(NET.a)),
  row(
    'multicast listener report behind hop-by-hop options',
    'a1',
    say(ipv6(LINK_LOCAL, 'ff02::16', 0, extension(ICMP, Buffer.from([143, 0, 0, 0, 0, 0, 0, 0])))),
    pass(NET.a),
  ),
  row('an echo request', 'a1', icmp(Buffer.from([128, 0, 0, 0, 0, 0, 0, 0])), pass(NET.a)),
  row('ICMPv6 without a type', 'a1', icmp(Buffer.alloc(0)), drop('short')),
  row('a global source', 'a1', say(ipv6('2001:db8::2', 'fe80::9', UDP, udp(1, 2))), drop('ipv6')),
  row('a unique local source', 'a1', say(ipv6('fd00::2', 'fe80::9', UDP, udp(1, 2))), drop('ipv6')),
  row('a source just above the link-local range', 'a1', say(ipv6('fec0::2', 'fe80::9', UDP, udp(1, 2))), drop('ipv6')),
  row('the loopback source', 'a1', say(ipv6('::1', 'fe80::9', UDP, udp(1, 2))), drop('ipv6')),
  row('DHCPv6 server', 'a1', say(ipv6(LINK_LOCAL, 'fe80::9', UDP, udp(547, 546))), drop('ipv6_router')),
  row('DHCPv6 from the port of servers', 'a1', say(ipv6(LINK_LOCAL, 'fe80::9', UDP, udp(547, 9))), drop('ipv6_router')),
  row(
    'a DHCPv6 answer from another port',
    'a1',
    say(ipv6(LINK_LOCAL, 'fe80::9', UDP, udp(5470, 546))),
    drop('ipv6_router'),
  ),
  row(
    'a DHCPv6 answer behind an extension header',
    'a1',
    say(ipv6(LINK_LOCAL, 'fe80::9', DESTINATION, behind(1, UDP, udp(5470, 546)))),
    drop('ipv6_router'),
  ),
  row(
    'a DHCPv6 answer in a fragment',
    'a1',
    say(ipv6(LINK_LOCAL, 'fe80::9', FRAGMENT, extension(UDP, udp(5470, 546)))),
    drop('ipv6_hidden'),
  ),
  row('DHCPv6 client', 'a1', say(ipv6(LINK_LOCAL, 'ff02::1:2', UDP, udp(546, 547))), pass(NET.a)),
  row('UDP that ends within its ports', 'a1', say(ipv6(LINK_LOCAL, 'fe80::9', UDP, Buffer.alloc(1))), drop('short')),
  row('link-local UDP', 'a1', say(ipv6(LINK_LOCAL, 'fe80::9', UDP, udp(5, 6)), MAC.a2), redirect('a2', NET.a)),
  row('version 4 under the EtherType of IPv6', 'a1', say(Buffer.alloc(60, 0x45)), drop('malformed')),
  row('a header that ends too early', 'a1', icmp(advertisement).subarray(0, 53), drop('short')),
  row(
    'router advertisement behind a tag',
    'a1',
    ethernet(ALL_NODES, MAC.a1, TYPE.ipv6, ipv6(LINK_LOCAL, 'ff02::1', ICMP, advertisement), [{ vid: 8 }]),
    drop('ipv6_router'),
  ),
  row(
    'another MAC in the option behind a tag',
    'a1',
    ethernet(
      ALL_NODES,
      MAC.a1,
      TYPE.ipv6,
      ipv6(LINK_LOCAL, 'ff02::1', ICMP, discovery(135, 'fe80::3', linkOption(1, MAC.a2))),
      [{ vid: 8 }],
    ),
    drop('ipv6'),
  ),
]
