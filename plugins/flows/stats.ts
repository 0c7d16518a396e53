/** Sums over all flows (D91). */
import type { Flow } from '../../dataplane/bpf/flow/read.ts'
import { protocolName } from './protocols.ts'
import type { Stats } from './schemas.ts'
import { Talkers } from './talkers.ts'

/** How many addresses are told. */
const TALKERS = 10

/** The sums take memory for each address: of many that ask one is answered at a time. */
export function statsInTurn(): (flows: () => AsyncIterable<readonly Flow[]>) => Promise<Stats> {
  let tail: Promise<unknown> = Promise.resolve()
  return (flows) => {
    const run = tail.then(() => statsOf(flows()))
    tail = run.catch(() => {})
    return run
  }
}

async function statsOf(flows: AsyncIterable<readonly Flow[]>): Promise<Stats> {
  const stats: Stats = {
    total_flows: 0,
    active_flows: 0,
    total_bytes: 0,
    total_packets: 0,
    per_protocol: {},
    per_state: {},
    top_talkers: [],
  }
  const talkers = new Talkers()
  for await (const some of flows) for (const flow of some) add(stats, talkers, flow)
  stats.top_talkers = await talkers.top(TALKERS)
  return stats
}

function add(stats: Stats, talkers: Talkers, flow: Flow): void {
  const protocol = protocolName(flow.protocol)
  const [bytes, packets] = [flow.bytesIn + flow.bytesOut, flow.packetsIn + flow.packetsOut]
  stats.total_flows++
  if (flow.state === 'active') stats.active_flows++
  stats.total_bytes += bytes
  stats.total_packets += packets
  stats.per_protocol[protocol] = (stats.per_protocol[protocol] ?? 0) + 1
  stats.per_state[flow.state] = (stats.per_state[flow.state] ?? 0) + 1
  // A flow of an address with itself is one flow of that address.
  talkers.add(flow.srcIp, packets, bytes)
  if (flow.dstIp !== flow.srcIp) talkers.add(flow.dstIp, packets, bytes)
}
