/**
 * What readers of the event stream that read nothing cost those who change something: the same changes with and without
 * them, in rounds that take turns. A change is timed at the client; CPU time is that of the agent without its helper.
 */
import { execFileSync, spawn } from 'node:child_process'
import { stalledReaders } from '../abuse/stalled.ts'
import { type BenchAgent, startBenchAgent, TOKEN } from './agent.ts'
import { type Client, openClient } from './client.ts'
import { quantile, type Report } from './figure.ts'

const READERS = 10
const ROUNDS = 12
/** Creations and deletions of a round. Together they stay below what makes the agent end a reader (D111). */
const PAIRS = 100
const EVENTS_URL = 'wss://127.0.0.1:7072/api/v1/events?since=0'

interface Lane {
  name: string
  readers: number
  /** Medians of the rounds, ms. */
  latency: number[]
  /** Of a change, ms. */
  cpu: number[]
}

export async function events(report: Report): Promise<void> {
  // So that the kernel takes little for a reader that takes nothing.
  execFileSync('sysctl', ['-qw', 'net.ipv4.tcp_wmem=4096 16384 32768', 'net.ipv4.tcp_rmem=4096 16384 32768'])
  const agent = await startBenchAgent()
  const client = await openClient(agent.port, TOKEN)
  const stalled = stalledReaders(spawn)
  const alone: Lane = { name: 'alone', readers: 0, latency: [], cpu: [] }
  const beside: Lane = { name: 'stalled', readers: READERS, latency: [], cpu: [] }
  try {
    // What a reader that begins at the beginning has before it.
    const rules = Array.from({ length: 1000 }, (_, n) => ({ ...rule(n), comment: 'x'.repeat(200) }))
    const { status, body } = await client.call('POST', '/api/v1/rules/batch', { rules })
    if (status !== 200) throw new Error(`batch: ${status} ${body.slice(0, 200)}`)
    for (let round = -1; round < ROUNDS; round++) {
      for (const lane of round % 2 === 0 ? [alone, beside] : [beside, alone]) {
        await stalled.open(EVENTS_URL, TOKEN, lane.readers)
        const { latency, cpu } = await changes(agent, client)
        await stalled.leave()
        if (round < 0) continue
        lane.latency.push(latency)
        lane.cpu.push(cpu)
      }
    }
  } finally {
    stalled.child.kill()
    client.close()
    await agent.stop()
  }
  tell(report, 'p50', alone.latency, beside.latency)
  tell(report, 'cpu', alone.cpu, beside.cpu)
}

function tell(report: Report, what: string, alone: readonly number[], beside: readonly number[]): void {
  const ratios = alone.map((value, round) => (beside[round] ?? Number.NaN) / value)
  report({ figure: `change_${what}_alone`, value: quantile(alone, 0.5), unit: 'ms' })
  report({ figure: `change_${what}_stalled`, value: quantile(beside, 0.5), unit: 'ms' })
  const note = `median of ${ratios.length} rounds, ${READERS} readers that read nothing`
  report({ figure: `change_${what}_ratio`, value: quantile(ratios, 0.5), unit: '', goal: 1.15, note })
}

const rule = (n: number) => ({
  action: 'drop',
  protocol: 'tcp',
  source_ip: `10.${(n >> 8) & 255}.${n & 255}.0/24`,
  dest_port: 1 + (n % 60_000),
})

/** Creates and deletes, so that as much is there as before. */
async function changes(agent: BenchAgent, client: Client): Promise<{ latency: number; cpu: number }> {
  const took: number[] = []
  const before = agent.cpu().agent
  for (let n = 0; n < PAIRS; n++) {
    const start = performance.now()
    const { status, body } = await client.call('POST', '/api/v1/rules', rule(50_000 + n))
    took.push(performance.now() - start)
    if (status !== 201) throw new Error(`create: ${status} ${body}`)
    const { id } = (JSON.parse(body) as { rule: { id: number } }).rule
    await client.call('DELETE', `/api/v1/rules/${id}`)
  }
  return { latency: quantile(took, 0.5), cpu: ((agent.cpu().agent - before) / (2 * PAIRS)) * 1000 }
}
