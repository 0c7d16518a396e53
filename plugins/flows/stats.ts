/** Sums over all flows (D91). */
import type { Flow } from '../../dataplane/bpf/flow/read.ts'
import { protocolName } from './protocols.ts'
import type { Stats } from './schemas.ts'

type Talker = Stats['top_talkers'][number]
const TALKERS = 10
/** How many are compared before the event loop gets its turn. */
const TURN = 8192

export async function statsOf(flows: AsyncIterable<readonly Flow[]>): Promise<Stats> {
  const stats: Stats = {
    total_flows: 0,
    active_flows: 0,
    total_bytes: 0,
    total_packets: 0,
    per_protocol: {},
    per_state: {},
    top_talkers: [],
  }
  const talkers = new Map<string, Talker>()
  for await (const some of flows) for (const flow of some) add(stats, talkers, flow)
  stats.top_talkers = await topOf(talkers.values())
  return stats
}

function add(stats: Stats, talkers: Map<string, Talker>, flow: Flow): void {
  const protocol = protocolName(flow.protocol)
  const [bytes, packets] = [flow.bytesIn + flow.bytesOut, flow.packetsIn + flow.packetsOut]
  stats.total_flows++
  if (flow.state === 'active') stats.active_flows++
  stats.total_bytes += bytes
  stats.total_packets += packets
  stats.per_protocol[protocol] = (stats.per_protocol[protocol] ?? 0) + 1
  stats.per_state[flow.state] = (stats.per_state[flow.state] ?? 0) + 1
  // A flow of an address with itself is one flow of that address.
  for (const ip of flow.srcIp === flow.dstIp ? [flow.srcIp] : [flow.srcIp, flow.dstIp]) {
    const talker = talkers.get(ip)
    if (talker === undefined) talkers.set(ip, { ip, packets, bytes, flows: 1 })
    else {
      talker.packets += packets
      talker.bytes += bytes
      talker.flows++
    }
  }
}

/** The greatest first. */
async function topOf(talkers: Iterable<Talker>): Promise<Talker[]> {
  let top: Talker[] = []
  let seen = 0
  for (const talker of talkers) {
    if (++seen % TURN === 0) await new Promise(setImmediate)
    const last = top.at(-1)
    if (top.length === TALKERS && last !== undefined && order(talker, last) > 0) continue
    top = [...top, talker].sort(order).slice(0, TALKERS)
  }
  return top
}

const order = (a: Talker, b: Talker): number => b.packets - a.packets || b.bytes - a.bytes || (a.ip < b.ip ? -1 : 1)
