/** What the maps of br-work hold, as plain values: the same world fills the maps and is given to the reference. */
import { NET_DHCP, NET_HOST_GATEWAY, NET_ROUTED, ROUTED_NET_BASE } from '../../../numbers.ts'
import { CLAIM_ANY } from '../numbers.ts'

export interface Endpoint {
  address: string
  /** CLAIM_*. */
  claims: number
  home: number
  slot: number
}

export interface World {
  /** ifindex → net. */
  ports: Map<number, number>
  /** Of ports that lead off the node. */
  kinds: ReadonlyMap<number, 'uplink' | 'overlay'>
  /** `<net>/<mac>` →. */
  endpoints: Map<string, Endpoint>
  /** slot →. */
  truth: Map<number, { mac: string; routed: boolean }>
  /** `<net>/<address>` →. */
  addresses: Map<string, { slot: number; routed: boolean }>
  /** `<net>/<interface id>` → slot that has claimed the link-local address; the id as 16 hex digits. */
  links: Map<string, number>
  /** slot → interface id that it has claimed. */
  claimed: Map<number, string>
  netOfMac: Map<string, number | 'ambiguous'>
  /** MAC → net and address that it had. */
  formers: Map<string, { net: number; address: string }>
  /** MAC of such a client → ifindex by which it has asked. */
  askedBy: Map<string, number>
  /** The node's own leg. */
  host?: { mac: string; ifindex: number }
  privateRanges: string[]
  hostRanges: { prefix: string; net: number; routed: boolean }[]
  nets: Map<number, { gateway: string; vlan: number; flags: number }>
  vlans: Map<number, { locked: boolean; net: number }>
  /** `<net>/<mac>` → ifindex. */
  far: Map<string, number>
  /** Of no net: MAC → ifindex of the overlay of a peer. */
  peers: Map<string, number>
  /** MACs behind uplinks: heard within the last second or long ago, and in how many seconds. */
  outside: Map<string, { recent: boolean; times: number }>
  /** Nothing of an open port reaches the node. */
  closed: boolean
  macbinds: Map<string, { ifindex: number; vlan: number; lock: number }>
  /** ifindex → lock of that port; 0 → lock of every port. */
  locks: Map<number, number>
  /** net → what holds for it because of its tenant. A rate is 1 bit/s, so that a test takes no time by it. */
  tenantNets: Map<number, { bucket: number; rate: 0 | 1; blocked: boolean }>
  /** bucket → bytes that are not paid for. */
  owed: Map<number, { up: number; down: number }>
}

/** Interfaces of the tests by name; their indexes are fixed, so that a row of a table can name them. */
export const PORT = {
  a1: 11,
  a2: 12,
  b1: 13,
  b2: 14,
  c1: 15,
  c2: 16,
  o1: 17,
  o2: 18,
  r1: 19,
  uplink: 20,
  fixed: 21,
  stranger: 22,
  bridge: 23,
  overlay: 24,
  tunnel: 25,
} as const
export type PortName = keyof typeof PORT

/** Nets 1 and 2 have the same range and the same MACs; 3 is another tenant's; the last is of one routed NIC. */
export const NET = { a: 1, b: 2, c: 3, routed: ROUTED_NET_BASE + 5 } as const

export const MAC = {
  a1: '02:ce:0a:00:00:02',
  a2: '02:ce:0a:00:00:03',
  a3: '02:ce:0a:00:00:04',
  b1: '02:ce:0a:00:00:02',
  b2: '02:ce:0a:00:00:03',
  c1: '02:ce:0a:03:00:02',
  c2: '02:ce:0a:03:00:03',
  o1: '02:aa:00:00:00:01',
  o2: '02:aa:00:00:00:02',
  r1: '02:ce:c6:12:05:05',
  far: '02:fa:00:00:00:01',
  node: '02:bb:00:00:00:01',
  peer: '02:fa:00:00:00:03',
  router: '02:fa:00:00:00:02',
  nobody: '02:00:00:00:00:99',
} as const

export const IP = {
  a1: '10.0.0.2',
  a2: '10.0.0.3',
  a3: '10.0.0.4',
  gatewayA: '10.0.0.1',
  c1: '10.3.0.2',
  c2: '10.3.0.3',
  gatewayC: '10.3.0.1',
  o1: '10.9.0.11',
  o2: '10.9.0.12',
  r1: '198.18.5.5',
  /** Second, routed address of a1. */
  routedA1: '198.18.5.9',
  routedGateway: '169.254.0.1',
} as const

/** Slots in `truth`; a3 is bound and not seen at any port yet. */
export const SLOT = { a1: 5, a2: 6, a3: 7, b1: 8, b2: 9, c1: 10, c2: 11, r1: 12 } as const

/** a2 has claimed fe80::a2. */
export const LINK_ID = { a2: '00000000000000a2' } as const

/**
 * a and b are declared; c has been claimed at c1 by its first frame while c2 is still open; r1 is open. o is open and
 * nobody's. `fixed` is an uplink that carries net c without tag, `overlay` a tunnel that carries net a, `tunnel` one for open ports;
 * `stranger` is on the bridge and not guarded.
 */
export function world(): World {
  const bound: [number, string, string, number, number][] = [
    [NET.a, MAC.a1, IP.a1, SLOT.a1, PORT.a1],
    [NET.a, MAC.a2, IP.a2, SLOT.a2, PORT.a2],
    [NET.a, MAC.a3, IP.a3, SLOT.a3, 0],
    [NET.b, MAC.b1, IP.a1, SLOT.b1, PORT.b1],
    [NET.b, MAC.b2, IP.a2, SLOT.b2, PORT.b2],
    [NET.c, MAC.c1, IP.c1, SLOT.c1, PORT.c1],
    [NET.c, MAC.c2, IP.c2, SLOT.c2, 0],
    [NET.routed, MAC.r1, IP.r1, SLOT.r1, 0],
  ]
  const one: World = {
    ports: new Map(Object.values(PORT).map((ifindex) => [ifindex, 0])),
    kinds: new Map([
      [PORT.uplink, 'uplink'],
      [PORT.fixed, 'uplink'],
      [PORT.overlay, 'overlay'],
      [PORT.tunnel, 'overlay'],
    ]),
    endpoints: new Map(),
    truth: new Map(),
    addresses: new Map([[`${NET.a}/${IP.routedA1}`, { slot: SLOT.a1, routed: true }]]),
    links: new Map([[`${NET.a}/${LINK_ID.a2}`, SLOT.a2]]),
    claimed: new Map([[SLOT.a2, LINK_ID.a2]]),
    netOfMac: new Map(),
    formers: new Map(),
    askedBy: new Map(),
    privateRanges: ['10.0.0.0/24', '10.3.0.0/24', `${IP.r1}/32`, `${IP.routedA1}/32`],
    hostRanges: [
      { prefix: '10.0.0.0/24', net: NET.a, routed: false },
      { prefix: '10.3.0.0/24', net: NET.c, routed: false },
      { prefix: `${IP.r1}/32`, net: NET.routed, routed: true },
      { prefix: `${IP.routedA1}/32`, net: NET.a, routed: true },
    ],
    nets: new Map([
      [NET.a, { gateway: IP.gatewayA, vlan: 100, flags: NET_HOST_GATEWAY | NET_ROUTED | NET_DHCP }],
      [NET.b, { gateway: IP.gatewayA, vlan: 0, flags: 0 }],
      [NET.c, { gateway: IP.gatewayC, vlan: 300, flags: NET_HOST_GATEWAY }],
    ]),
    vlans: new Map([
      [7, { locked: true, net: 0 }],
      [100, { locked: false, net: NET.a }],
      [300, { locked: false, net: NET.c }],
    ]),
    far: new Map([[`${NET.a}/${MAC.far}`, PORT.uplink]]),
    peers: new Map([[MAC.peer, PORT.tunnel]]),
    outside: new Map([[MAC.router, { recent: true, times: 3 }]]),
    closed: false,
    macbinds: new Map(),
    locks: new Map(),
    tenantNets: new Map(),
    owed: new Map(),
  }
  for (const [net, mac, address, slot, home] of bound) {
    one.endpoints.set(`${net}/${mac}`, { address, claims: CLAIM_ANY, home, slot })
    one.truth.set(slot, { mac, routed: net === NET.routed })
    one.netOfMac.set(mac, one.netOfMac.has(mac) ? 'ambiguous' : net)
  }
  for (const name of ['a1', 'a2', 'overlay'] as const) one.ports.set(PORT[name], NET.a)
  for (const name of ['b1', 'b2'] as const) one.ports.set(PORT[name], NET.b)
  for (const name of ['c1', 'fixed'] as const) one.ports.set(PORT[name], NET.c)
  one.ports.delete(PORT.stranger)
  one.ports.delete(PORT.bridge)
  return one
}
