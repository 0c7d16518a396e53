/** What workloads get: frames of their own net only. */
import { BROADCAST, ethernet } from '../packet.ts'
import { IP, MAC, NET } from '../world.ts'
import { datagram, drop, type Row, rowsAt, stamp } from './row.ts'

const row = rowsAt('port_out')
const toA2 = datagram(MAC.a1, MAC.a2, IP.a1, IP.a2)
const toAll = datagram(MAC.a1, BROADCAST, IP.a1, '10.0.0.255')
const delivered = { verdict: 'pass' as const, mark: 0 }

export const DELIVERIES: readonly Row[] = [
  row('unicast of the net', 'a2', toA2, { ...delivered, data: toA2 }, { mark: stamp(NET.a) }),
  row('broadcast of the net', 'a2', toAll, delivered, { mark: stamp(NET.a) }),
  row('by a routed address of the net', 'a2', toA2, delivered, { mark: stamp(NET.a, true) }),
  row('unicast of another net to the same MAC', 'a2', toA2, drop('other_net'), { mark: stamp(NET.b) }),
  row('broadcast of another net', 'a2', toAll, drop('other_net'), { mark: stamp(NET.c) }),
  row('unicast from an open port', 'a2', toA2, drop('other_net'), { mark: stamp(0) }),
  row('broadcast from an open port', 'a2', toAll, drop('other_net'), { mark: stamp(0) }),
  row('a net to an open port', 'o1', toAll, drop('other_net'), { mark: stamp(NET.a) }),
  row('a routed NIC to an open port', 'o1', toAll, drop('other_net'), { mark: stamp(NET.routed, true) }),
  row('from open port to open port', 'o1', toAll, delivered, { mark: stamp(0) }),
  row('from a port that is not guarded', 'a2', toAll, drop('unstamped')),
  row('from a port that is not guarded to an open port', 'o1', toAll, drop('unstamped')),
  row('a mark of somebody else with the number of the net', 'a2', toA2, drop('unstamped'), { mark: NET.a }),
  row('the mark is cleared', 'a2', ethernet(MAC.a2, MAC.a1, 0x88b5, Buffer.alloc(46)), delivered, {
    mark: stamp(NET.a),
  }),
  row(
    'a tag inside the net stays',
    'a2',
    toA2,
    { ...delivered, beside: 0x8100_0008 },
    { mark: stamp(NET.a), beside: 0x8100_0008 },
  ),
  row('to a port that is not guarded', 'stranger', toAll, drop('no_port'), { mark: stamp(0) }),
]
