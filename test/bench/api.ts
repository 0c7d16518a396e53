/**
 * What the API costs: durable rule creation with few and with many rules present, reads over keep-alive TLS, memory.
 * Latency is the client's wall time; the cost of reads is the agent's CPU time beside that of a bare Fastify.
 */
import { type BenchAgent, cpuOf, startBenchAgent, TOKEN } from './agent.ts'
import { type Client, openClient } from './client.ts'
import { quantile, type Report } from './figure.ts'
import { startFloor } from './floor.ts'

const SAMPLES = 400
const READS = 10_000
const ROUNDS = 7
const READERS = 8

/** Distinct, scattered over priorities, so that insertions hit the whole list. */
function rule(n: number) {
  return {
    action: n % 3 === 0 ? 'drop' : 'accept',
    priority: (n * 7919) % 1000,
    protocol: 'tcp',
    source_ip: `10.${(n >> 8) & 255}.${n & 255}.0/24`,
    dest_port: 1 + (n % 60_000),
  }
}

export async function api(report: Report): Promise<void> {
  const agent = await startBenchAgent()
  const client = await openClient(agent.port, TOKEN)
  try {
    const idle = agent.rss()
    report({
      figure: 'rss_idle',
      value: idle.agent,
      unit: 'MB',
      goal: 120,
      note: `nft helper ${idle.helpers.toFixed(0)} MB more`,
    })
    await fill(client, 0, 10)
    await creations(client, report, 'at_10', 10, 2.5)
    await reads(agent, report)
    await fill(client, 1000, 10_000)
    await creations(client, report, 'at_10k', 20_000, 4)
    const parallel = await throughput(agent, 30_000)
    report({
      figure: 'create_per_second_at_10k',
      value: parallel,
      unit: '1/s',
      note: '8 clients, durable and in the kernel',
    })
  } finally {
    client.close()
    await agent.stop()
  }
}

async function fill(client: Client, from: number, count: number): Promise<void> {
  for (let at = 0; at < count; at += 2000) {
    const rules = Array.from({ length: Math.min(2000, count - at) }, (_, i) => rule(from + at + i))
    const { status, body } = await client.call('POST', '/api/v1/rules/batch', { rules, atomic: true })
    if (status !== 200) throw new Error(`batch: ${status} ${body.slice(0, 200)}`)
  }
}

/** Creates and deletes, so that the number present stays what the figure says. */
async function creations(client: Client, report: Report, label: string, from: number, goal: number): Promise<void> {
  const took: number[] = []
  for (let n = -20; n < SAMPLES; n++) {
    const start = performance.now()
    const { status, body } = await client.call('POST', '/api/v1/rules', rule(from + n + 20))
    const end = performance.now()
    if (status !== 201) throw new Error(`create: ${status} ${body}`)
    if (n >= 0) took.push(end - start)
    const { id } = (JSON.parse(body) as { rule: { id: number } }).rule
    await client.call('DELETE', `/api/v1/rules/${id}`)
  }
  report({ figure: `create_p50_${label}`, value: quantile(took, 0.5), unit: 'ms', goal })
  report({ figure: `create_p99_${label}`, value: quantile(took, 0.99), unit: 'ms' })
}

/**
 * CPU time a request, in rounds that take turns with a bare Fastify: both see the same neighbours, and the lower quartile
 * is quoted.
 */
async function reads(agent: BenchAgent, report: Report): Promise<void> {
  const floor = await startFloor(agent.tlsDir)
  const open = (port: number) => Promise.all(Array.from({ length: READERS }, () => openClient(port, TOKEN)))
  const [ours, theirs] = await Promise.all([open(agent.port), open(floor.port)])
  const [first] = ours
  const { body } = (await first?.call('POST', '/api/v1/rules', rule(99_999))) ?? { body: '{}' }
  const { id } = (JSON.parse(body) as { rule: { id: number } }).rule
  const lanes = [
    { name: 'floor', clients: theirs, path: '/api/v1/health', cpu: () => cpuOf(floor.child.pid ?? 0) },
    { name: 'health', clients: ours, path: '/api/v1/health', cpu: () => agent.cpu().agent, goal: 40 },
    { name: 'rule', clients: ours, path: `/api/v1/rules/${id}`, cpu: () => agent.cpu().agent, goal: 80 },
  ].map((lane) => ({ ...lane, micros: [] as number[] }))
  for (let round = -1; round < ROUNDS; round++) {
    for (const lane of lanes) {
      const before = lane.cpu()
      await hammer(lane.clients, lane.path, READS)
      if (round >= 0) lane.micros.push(((lane.cpu() - before) / READS) * 1e6)
    }
  }
  const base = quantile(lanes[0]?.micros ?? [], 0.25)
  for (const { name, micros, goal } of lanes) {
    const value = quantile(micros, 0.25)
    const note = `${Math.round(1e6 / value)}/s of one core, ${(value / base).toFixed(2)} of a bare Fastify`
    report({ figure: `get_${name}_cpu`, value, unit: 'us', note, ...(goal !== undefined && { goal }) })
  }
  for (const client of [...ours, ...theirs]) client.close()
  floor.child.kill()
}

async function hammer(clients: readonly Client[], path: string, total: number): Promise<void> {
  let left = total
  const work = async (client: Client) => {
    while (left-- > 0) {
      const { status } = await client.call('GET', path)
      if (status !== 200) throw new Error(`${path}: ${status}`)
    }
  }
  await Promise.all(clients.map(work))
}

async function throughput(agent: BenchAgent, from: number): Promise<number> {
  const clients = await Promise.all(Array.from({ length: READERS }, () => openClient(agent.port, TOKEN)))
  let next = 0
  const total = 800
  const start = performance.now()
  const work = async (client: Client) => {
    while (next < total) {
      const { status } = await client.call('POST', '/api/v1/rules', rule(from + next++))
      if (status !== 201) throw new Error(`create: ${status}`)
    }
  }
  await Promise.all(clients.map(work))
  for (const client of clients) client.close()
  return total / ((performance.now() - start) / 1000)
}
