/** DHCP of MACs that are bound no more: o1 was at 10.0.0.3 in net a, and the node serves that net. */
import { BROADCAST, ethernet, ipv4, PROTOCOL, type Tag, TYPE, udp } from '../packet.ts'
import type { Packet } from '../stage.ts'
import { IP, MAC, NET, PORT, type PortName, SLOT, type World } from '../world.ts'
import { asking, datagram, drop, pass, type Row, redirect, rowsAt, stamp } from './row.ts'

const EVERYBODY = '255.255.255.255'
const was =
  (more: (world: World) => unknown = () => {}) =>
  (world: World) => {
    world.host = { mac: MAC.node, ifindex: PORT.bridge }
    world.formers.set(MAC.o1, { net: NET.a, address: IP.a2 })
    more(world)
  }
const given = was()
const row = rowsAt('port_in')

interface Said {
  from?: string
  to?: string
  mac?: string
  ports?: [number, number]
  client?: string
  fragment?: number
  options?: Buffer
  tags?: Tag[]
}
const says = ({ from = IP.a2, to = IP.gatewayA, mac = MAC.node, ports = [68, 67], ...more }: Said = {}) => {
  const { client = MAC.o1, fragment = 0, options = Buffer.alloc(0), tags = [] } = more
  const message = udp(...ports, asking(client))
  return ethernet(mac, MAC.o1, TYPE.ipv4, ipv4(from, to, PROTOCOL.udp, message, { fragment, options }), tags)
}
const up = redirect('bridge', NET.a)
const bound = was(({ endpoints, truth, netOfMac, addresses }) => {
  endpoints.set(`${NET.a}/${MAC.o1}`, { address: IP.a3, claims: 0, home: PORT.o1, slot: SLOT.a3 })
  truth.set(SLOT.a3, { mac: MAC.o1, routed: false })
  netOfMac.set(MAC.o1, NET.a)
  addresses.clear()
})
const inC = was(({ ports }) => ports.set(PORT.o1, NET.c))
const inA = was(({ ports }) => ports.set(PORT.o1, NET.a))

export const FORMERS: readonly Row[] = [
  row('a renewal', 'o1', says(), up, { given }),
  row('a rebinding', 'o1', says({ to: EVERYBODY, mac: BROADCAST }), up, { given }),
  row('a renewal by a port of the net', 'o1', says(), up, { given: inA }),
  row('a renewal without address by a port of the net', 'o1', says({ from: '0.0.0.0' }), up, { given: inA }),
  row('a renewal while open ports are closed', 'o1', says(), up, {
    given: was((it) => Object.assign(it, { closed: true })),
  }),
  row(
    'a client that asks anew asks others as well',
    'o1',
    says({ from: '0.0.0.0', to: EVERYBODY, mac: BROADCAST }),
    pass(0),
    { given },
  ),
  row('a renewal by a port of another net', 'o1', says(), drop('unbound'), { given: inC }),
  row('a renewal of an earlier address by a MAC that is bound', 'o1', says(), up, { given: bound }),
  row('by another address', 'o1', says({ from: IP.a3 }), drop('private_address'), { given }),
  row('to another address', 'o1', says({ to: IP.a1 }), drop('private_address'), { given }),
  row('to another MAC', 'o1', says({ mac: MAC.a1 }), drop('private_address'), { given }),
  row('from another port', 'o1', says({ ports: [1068, 67] }), drop('private_address'), { given }),
  row('to another port', 'o1', says({ ports: [68, 53] }), drop('private_address'), { given }),
  row('for another client', 'o1', says({ client: MAC.a2 }), drop('private_address'), { given }),
  row('in a fragment', 'o1', says({ fragment: 0x2000 }), drop('private_address'), { given }),
  row('behind IP options', 'o1', says({ options: Buffer.alloc(4, 1) }), drop('private_address'), { given }),
  row('in a VLAN', 'o1', says({ tags: [{ vid: 8 }] }), drop('private_address'), { given }),
  row(
    'anything else by the former address',
    'o1',
    datagram(MAC.o1, MAC.node, IP.a2, IP.gatewayA),
    drop('private_address'),
    { given },
  ),
  row('a renewal that nobody remembers', 'o1', says(), drop('private_address'), {
    given: was(({ formers }) => formers.clear()),
  }),
  row('a renewal in a net that the node serves no more', 'o1', says(), drop('private_address'), {
    given: was(({ nets }) => nets.set(NET.a, { gateway: IP.gatewayA, vlan: 0, flags: 1 })),
  }),
  row('a renewal of a blocked tenant', 'o1', says(), drop('tenant_blocked'), {
    given: was(({ tenantNets }) => tenantNets.set(NET.a, { bucket: 3, rate: 0, blocked: true })),
  }),
]

const out = rowsAt('port_out')
const answers = ({ to = BROADCAST, client = MAC.o1 as string, ports = [67, 68] as [number, number] } = {}) =>
  ethernet(to, MAC.node, TYPE.ipv4, ipv4(IP.gatewayA, EVERYBODY, PROTOCOL.udp, udp(...ports, asking(client))))
const asked = (by: PortName, of = {}): Partial<Packet> & Pick<Row, 'given'> => ({
  mark: stamp(NET.a),
  given: was(({ askedBy }) => askedBy.set(MAC.o1, PORT[by])),
  ...of,
})

export const REFUSALS: readonly Row[] = [
  out('the answer by the port that asked', 'o1', answers(), { verdict: 'pass', mark: 0 }, asked('o1')),
  out('the answer to its MAC', 'o1', answers({ to: MAC.o1 }), { verdict: 'pass', mark: 0 }, asked('o1')),
  out('by another port', 'o2', answers(), drop('other_net'), asked('o1')),
  out('by a port of another net', 'c1', answers(), drop('other_net'), asked('c1')),
  out('of another net', 'o1', answers(), drop('other_net'), asked('o1', { mark: stamp(NET.c) })),
  out('to another client', 'o1', answers({ client: MAC.o2 }), drop('other_net'), asked('o1')),
  out('to another MAC', 'o1', answers({ to: MAC.o2 }), drop('other_net'), asked('o1')),
  out('from another port of UDP', 'o1', answers({ ports: [1067, 68] }), drop('other_net'), asked('o1')),
  out('before it has asked', 'o1', answers(), drop('other_net'), { mark: stamp(NET.a), given }),
]
