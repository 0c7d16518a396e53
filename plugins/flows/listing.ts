/**
 * Flows as text, a piece at a time: a million of them are never in memory together, and the event loop gets its turn
 * between the pieces. All values are numbers, addresses and names from here, so nothing in them needs quoting.
 */
import type { Flow } from '../../dataplane/bpf/flow/read.ts'
import { protocolName } from './protocols.ts'

type Flows = AsyncIterable<readonly Flow[]>

/** Ends with the flow that is number `limit`. */
export async function* limited(flows: Flows, limit: number): AsyncGenerator<readonly Flow[]> {
  let left = limit
  for await (const some of flows) {
    yield some.length > left ? some.slice(0, left) : some
    left -= some.length
    if (left <= 0) return
  }
}

/** More than any flow takes as text: all its texts are bounded. */
const LONGEST = 640

/** Writes line by line: a text that grows is copied once more as a whole, which takes as long as all the rest. ASCII. */
function written(flows: readonly Flow[], line: (flow: Flow) => string): Buffer {
  const bytes = Buffer.allocUnsafe(flows.length * LONGEST)
  let at = 0
  for (const flow of flows) at += bytes.write(line(flow), at, 'latin1')
  return bytes.subarray(0, at)
}

/** `{"flows":[…],"count":n}` */
export async function* jsonOf(flows: Flows): AsyncGenerator<Buffer> {
  const time = clock()
  let count = 0
  for await (const some of flows) {
    yield written(some, (flow) => `${count++ === 0 ? '{"flows":[' : ','}${json(flow, time)}`)
  }
  yield Buffer.from(`${count === 0 ? '{"flows":[' : ''}],"count":${count}}`)
}

const COLUMNS =
  'id,src_ip,dst_ip,src_port,dst_port,protocol,bytes_in,bytes_out,packets_in,packets_out,start_time,last_seen,state'

/** RFC 4180 with a header (D90). */
export async function* csvOf(flows: Flows): AsyncGenerator<Buffer> {
  const time = clock()
  yield Buffer.from(`${COLUMNS}\r\n`)
  for await (const some of flows) yield written(some, (flow) => csv(flow, time))
}

type Time = (ms: number) => string
const SECONDS = 10_000

/** RFC 3339 of milliseconds of Unix time. Many flows share a second, and making its text costs most of a line. */
function clock(): Time {
  const seconds = new Map<number, string>()
  return (ms) => {
    const second = Math.floor(ms / 1000)
    let text = seconds.get(second)
    if (text === undefined) {
      text = new Date(second * 1000).toISOString().slice(0, -4)
      if (seconds.size >= SECONDS) seconds.clear()
      seconds.set(second, text)
    }
    const rest = ms - second * 1000
    return `${text}${rest < 10 ? '00' : rest < 100 ? '0' : ''}${rest}Z`
  }
}

const json = (f: Flow, time: Time) =>
  `{"id":"${f.id}","src_ip":"${f.srcIp}","dst_ip":"${f.dstIp}","src_port":${f.srcPort},"dst_port":${f.dstPort},` +
  `"protocol":"${protocolName(f.protocol)}","bytes_in":${f.bytesIn},"bytes_out":${f.bytesOut},` +
  `"packets_in":${f.packetsIn},"packets_out":${f.packetsOut},"start_time":"${time(f.start)}",` +
  `"last_seen":"${time(f.last)}","state":"${f.state}"}`

const csv = (f: Flow, time: Time) =>
  `${f.id},${f.srcIp},${f.dstIp},${f.srcPort},${f.dstPort},${protocolName(f.protocol)},${f.bytesIn},${f.bytesOut},` +
  `${f.packetsIn},${f.packetsOut},${time(f.start)},${time(f.last)},${f.state}\r\n`

/** `flows-20300131T120000Z.csv` */
export function fileName(now: Date, format: string): string {
  return `flows-${now.toISOString().replace(/[-:]|\.\d+/g, '')}.${format}`
}
