/** Sums over all flows (D91). */
import type { Flow } from '../../dataplane/bpf/flow/read.ts'
import { protocolName } from './protocols.ts'
import type { Stats } from './schemas.ts'

type Talker = Stats['top_talkers'][number]
const TALKERS = 10
/** How many are compared before the event loop gets its turn. */
const TURN = 8192

/** A map of a million addresses stops the event loop when it grows; of so many each is small. */
const MAPS = 256
type Talkers = readonly Map<string, Talker>[]

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
  const talkers: Talkers = Array.from({ length: MAPS }, () => new Map())
  for await (const some of flows) for (const flow of some) add(stats, talkers, flow)
  stats.top_talkers = await topOf(talkers)
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
  for (const ip of flow.srcIp === flow.dstIp ? [flow.srcIp] : [flow.srcIp, flow.dstIp]) {
    const some = talkers[mapOf(ip)] as Map<string, Talker>
    const talker = some.get(ip)
    if (talker === undefined) some.set(ip, { ip, packets, bytes, flows: 1 })
    else {
      talker.packets += packets
      talker.bytes += bytes
      talker.flows++
    }
  }
}

/** The greatest first. */
async function topOf(talkers: Talkers): Promise<Talker[]> {
  let top: Talker[] = []
  let seen = 0
  for (const some of talkers) {
    for (const talker of some.values()) {
      if (++seen % TURN === 0) await new Promise(setImmediate)
      const last = top.at(-1)
      if (top.length === TALKERS && last !== undefined && order(talker, last) > 0) continue
      top = [...top, talker].sort(order).slice(0, TALKERS)
    }
  }
  return top
}

/**
 * Of FNV-1a of the text. By the logarithm the last map gets twice as much as the first: they reach the size at which they
 * grow one after the other, where equal ones would grow together.
 */
function mapOf(text: string): number {
  let value = 0x811c9dc5
  for (let n = 0; n < text.length; n++) value = Math.imul(value ^ text.charCodeAt(n), 0x01000193)
  value = Math.imul(value ^ (value >>> 15), 0x2c1b3c6d)
  return Math.floor(Math.log2(1 + ((value ^ (value >>> 16)) >>> 0) / 2 ** 32) * MAPS)
}

const order = (a: Talker, b: Talker): number => b.packets - a.packets || b.bytes - a.bytes || (a.ip < b.ip ? -1 : 1)
