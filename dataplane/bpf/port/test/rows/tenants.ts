/** What a tenant's state does to the frames of its nets: a and c are one tenant's, b is another's. */
import { TENANT_BURST_BYTES } from '../../../../numbers.ts'
import { BROADCAST, ethernet, ipv4, TYPE, udp } from '../packet.ts'
import { IP, MAC, NET, type World } from '../world.ts'
import { datagram, drop, fromOutside, pass, type Row, redirect, rowsAt, stamp } from './row.ts'

const BUCKET = 3
type Given = (world: World) => void
const of = (nets: readonly number[], rate: 0 | 1, blocked: boolean, owed: { up: number; down: number }): Given => {
  return (world) => {
    for (const net of nets) world.tenantNets.set(net, { bucket: BUCKET, rate, blocked })
    world.owed.set(BUCKET, owed)
  }
}
const NOTHING = { up: 0, down: 0 }
const OURS = [NET.a, NET.c, NET.routed]
const blocked = { given: of(OURS, 0, true, NOTHING) }
const both = { given: of(OURS, 1, true, NOTHING) }
const owing = (up: number, down: number) => ({ given: of(OURS, 1, false, { up, down }) })
const [FULL, BULK, ROOM] = [2 * TENANT_BURST_BYTES + 1, TENANT_BURST_BYTES + 1, TENANT_BURST_BYTES - 1]

const sent = rowsAt('port_in')
const got = rowsAt('port_out')
const incoming = rowsAt('uplink_in')
const outgoing = rowsAt('uplink_out')
const fromNode = rowsAt('host_out')

const a1ToA2 = datagram(MAC.a1, MAC.a2, IP.a1, IP.a2)
const c1ToAll = datagram(MAC.c1, BROADCAST, IP.c1, '10.3.0.255')
const ofB = datagram(MAC.b1, MAC.b2, IP.a1, IP.a2)
const ofOpen = datagram(MAC.o1, BROADCAST, IP.o1, '10.9.0.255')
const large = ethernet(MAC.a2, MAC.a1, TYPE.ipv4, ipv4(IP.a1, IP.a2, 17, udp(1, 2, Buffer.alloc(1400))))
const fromFar = datagram(MAC.far, MAC.a1, '10.0.0.200', IP.a1, [{ vid: 100 }])
const delivered = { verdict: 'pass' as const, mark: 0 }
const ofA = { mark: stamp(NET.a) }

export const TENANTS: readonly Row[] = [
  sent('blocked: unicast', 'a1', a1ToA2, drop('tenant_blocked'), blocked),
  sent('blocked: broadcast of its other net', 'c1', c1ToAll, drop('tenant_blocked'), blocked),
  sent('blocked: IPv6', 'a1', ethernet(MAC.a2, MAC.a1, 0x88b5, Buffer.alloc(46)), drop('tenant_blocked'), blocked),
  sent(
    'blocked: a NIC with routed addresses only',
    'r1',
    datagram(MAC.r1, MAC.node, IP.r1, '192.0.2.1'),
    drop('tenant_blocked'),
    blocked,
  ),
  sent(
    'blocked: a routed address of an endpoint',
    'a1',
    datagram(MAC.a1, MAC.node, IP.routedA1, '192.0.2.1'),
    drop('tenant_blocked'),
    blocked,
  ),
  sent(
    'blocked: what is spoofed is told as before',
    'a1',
    datagram(MAC.a1, MAC.a2, IP.c1, IP.a2),
    drop('address'),
    blocked,
  ),
  sent('blocked and limited', 'a1', a1ToA2, drop('tenant_blocked'), both),
  sent("another tenant's net with the same addresses", 'b1', ofB, redirect('b2', NET.b), blocked),
  sent('an open port', 'o1', ofOpen, pass(0), blocked),
  got('blocked: what a workload would get', 'a2', a1ToA2, drop('tenant_blocked'), { ...blocked, ...ofA }),
  got('blocked: broadcast', 'c2', c1ToAll, drop('other_net'), { ...blocked, mark: stamp(NET.c) }),
  got("what another tenant's workload gets", 'b2', ofB, delivered, { ...blocked, mark: stamp(NET.b) }),
  got('what an open port gets', 'o2', ofOpen, delivered, { ...blocked, mark: stamp(0) }),
  incoming('blocked: from off the node', 'uplink', fromFar, drop('tenant_blocked'), blocked),
  incoming('blocked: from an uplink of that net', 'fixed', c1ToAll, drop('tenant_blocked'), blocked),
  incoming('of no net', 'uplink', ofOpen, fromOutside, blocked),
  outgoing('blocked: to off the node', 'uplink', a1ToA2, drop('tenant_blocked'), { ...blocked, ...ofA }),
  outgoing('of no net', 'uplink', ofOpen, delivered, { ...blocked, mark: stamp(0) }),
  fromNode(
    'blocked: what the node sends is stopped at the port',
    'bridge',
    datagram(MAC.node, MAC.a1, IP.gatewayA, IP.a1),
    redirect('a1', NET.a),
    blocked,
  ),

  sent('limited, nothing owed', 'a1', a1ToA2, redirect('a2', NET.a), owing(0, FULL)),
  sent(
    'limited, a little of the burst left: passes whatever its size',
    'a1',
    large,
    redirect('a2', NET.a),
    owing(ROOM, 0),
  ),
  sent('limited, the burst used up', 'a1', large, drop('tenant_limit'), owing(BULK, 0)),
  sent('limited, the burst used up by bulk: a small frame passes', 'a1', a1ToA2, redirect('a2', NET.a), owing(BULK, 0)),
  sent('limited, all used up: nor does a small one', 'a1', a1ToA2, drop('tenant_limit'), owing(FULL, 0)),
  sent('limited, used up by its other net', 'c1', c1ToAll, drop('tenant_limit'), owing(FULL, 0)),
  sent('limited: a tag beside the frame is paid for', 'a1', a1ToA2, redirect('a2', NET.a), {
    ...owing(100, 0),
    beside: 0x8100_0008,
  }),
  sent("another tenant's net", 'b1', ofB, redirect('b2', NET.b), owing(FULL, FULL)),
  sent('an open port', 'o1', ofOpen, pass(0), owing(FULL, FULL)),
  sent('no limit: nothing is paid', 'a1', a1ToA2, redirect('a2', NET.a), {
    given: of(OURS, 0, false, { up: FULL, down: 7 }),
  }),
  got('limited, nothing owed for what came', 'a2', a1ToA2, delivered, { ...owing(FULL, 0), ...ofA }),
  got('limited, the burst used up', 'a2', a1ToA2, drop('tenant_limit'), { ...owing(0, FULL), ...ofA }),
  incoming(
    'limited: only what workloads of this node get counts',
    'uplink',
    fromFar,
    redirect('a1', NET.a),
    owing(FULL, FULL),
  ),
  outgoing('limited: only what they send counts', 'uplink', a1ToA2, delivered, { ...owing(FULL, FULL), ...ofA }),
]
