/**
 * What port forwards cost: a packet of a translated connection and the first of a new one, with 1 forward and with 2,000
 * in interleaved rounds, and adding one more.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import type { Agent } from '../../core/agent.ts'
import { ethernet, ipv4, PROTOCOL, TYPE, udp } from '../../dataplane/bpf/port/test/packet.ts'
import { TOKEN } from './agent.ts'
import { quantile, type Report } from './figure.ts'
import { inProcess } from './in-process.ts'

const MANY = 2000
const ROUNDS = 7
const PACKETS = 60_000
const FLOWS = 20_000
const PUBLIC = '203.0.113.1'
const TARGET = '10.0.0.5'
const MACS = { source: '02:00:00:00:00:01', node: '02:00:00:00:00:02', target: '02:00:00:00:00:05' }
/** Of the source port, behind the headers of Ethernet and IPv4. */
const SOURCE_PORT = 14 + 20

const run = (line: string) =>
  execFileSync(line.split(' ')[0] ?? '', line.split(' ').slice(1), {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  })

export async function nat(report: Report): Promise<void> {
  road()
  const { agent, close } = await inProcess('ipam', 'l2', 'networks', 'nat')
  try {
    await measure(agent, report)
  } finally {
    await close()
  }
}

/** Packets come in by `near` and leave by `far`; what is sent into the other ends is seen there. */
function road(): void {
  run(`ip link add near address ${MACS.node} type veth peer name source address ${MACS.source}`)
  run('ip link add far type veth peer name target')
  for (const name of ['near', 'source', 'far', 'target']) run(`ip link set dev ${name} up`)
  run('ip address add 198.51.100.1/24 dev near')
  run('ip address add 10.0.0.1/24 dev far')
  run(`ip neighbour add ${TARGET} lladdr ${MACS.target} dev far`)
  for (const setting of ['ip_forward=1', 'conf.all.rp_filter=0', 'conf.near.rp_filter=0']) {
    run(`sysctl -qw net.ipv4.${setting}`)
  }
}

async function measure(agent: Agent, report: Report): Promise<void> {
  const call = async (method: 'POST' | 'DELETE', url: string, payload?: object) => {
    const headers = { authorization: `Bearer ${TOKEN}` }
    const answer = await agent.app.inject({
      method,
      url: `/api/v1/forward${url}`,
      headers,
      ...(payload && { payload }),
    })
    if (answer.statusCode >= 300) throw new Error(`${method} ${url}: ${answer.statusCode} ${answer.payload}`)
    return answer.json() as { port_forward: { id: number } }
  }
  const forward = async (port: number) => {
    const body = { dest_ip: PUBLIC, dest_port: port, target_ip: TARGET, target_port: 8080 }
    return (await call('POST', '', body)).port_forward.id
  }
  await forward(80)
  const [costs, adding]: [Record<string, number[]>, Record<string, number[]>] = [{}, {}]
  const note = (of: Record<string, number[]>, name: string, value: number) => {
    of[name] = [...(of[name] ?? []), value]
  }
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, count] of [
      ['1', 0],
      ['2000', MANY - 1],
    ] as const) {
      const ids: number[] = []
      for (let n = 0; n < count; n++) ids.push(await forward(1000 + n))
      note(costs, `established_${name}`, nsPerFrame(PACKETS))
      note(costs, `new_${name}`, nsPerFrame(FLOWS, SOURCE_PORT))
      for (let n = 0; n < 20; n++) {
        const since = performance.now()
        const id = await forward(40_000 + n)
        note(adding, name, performance.now() - since)
        await call('DELETE', `/${id}`)
      }
      for (const id of ids) await call('DELETE', `/${id}`)
    }
  }
  if (!spawnSync('conntrack', ['-L', '--dst-nat'], { encoding: 'utf8', maxBuffer: 64 << 20 }).stdout.includes(TARGET))
    throw new Error('nothing was translated')
  const least = (values: readonly number[] = []) => quantile(values, 0)
  for (const kind of ['established', 'new']) {
    const [one, many] = [least(costs[`${kind}_1`]), least(costs[`${kind}_2000`])]
    report({ figure: `${kind}_1`, value: one, unit: 'ns', note: `CPU of a packet, least of ${ROUNDS}` })
    report({ figure: `${kind}_2000`, value: many, unit: 'ns' })
    // What two rounds of the same thing differ by on a shared machine.
    report({ figure: `${kind}_2000_over_1`, value: many / one, unit: 'ratio', goal: 1.05 })
  }
  for (const name of ['1', '2000']) {
    report({
      figure: `add_${name}`,
      value: quantile(adding[name] ?? [], 0.5),
      unit: 'ms',
      goal: 3,
      note: 'p50, whole call',
    })
  }
}

/** CPU time of a packet from the wire to the wire. Each call begins without connections. */
function nsPerFrame(count: number, offset?: number): number {
  run('conntrack -F')
  const [index = ''] = run('ip -o link show dev source').split(':')
  const packet = ipv4('198.51.100.9', PUBLIC, PROTOCOL.udp, udp(1024, 80))
  const frame = ethernet(MACS.node, MACS.source, TYPE.ipv4, packet)
  const program = join(import.meta.dirname, 'frames-out.js')
  const args = [
    program,
    index.trim(),
    String(count),
    Buffer.from(frame).toString('hex'),
    ...(offset ? [String(offset)] : []),
  ]
  return Number(execFileSync(process.execPath, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }))
}
