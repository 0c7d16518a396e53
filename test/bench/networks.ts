/**
 * What private networks cost the agent: a network and its list by size, an attach by how many are bound, and what else goes
 * on then. In this process, so that the longest stall of its event loop can be seen.
 */
import { execFileSync } from 'node:child_process'
import type { Agent } from '../../core/agent.ts'
import { system } from '../../core/state/events.ts'
import { bindEndpoint } from '../../plugins/networks/endpoints.ts'
import { findNetwork } from '../../plugins/networks/rules.ts'
import { TOKEN } from './agent.ts'
import { quantile, type Report } from './figure.ts'
import { inProcess } from './in-process.ts'
import { watchStalls } from './stall.ts'

const ROUNDS = 21
const LISTS = 7
const ATTACHES = 400
const WARM_UP = 20
const BOUND = 50_000
const BATCH = 500
/** Ports that are nobody's: each is asked for every MAC that was not seen. */
const PORTS = 8

type Call = (method: string, path: string, body?: object) => Promise<{ payload: string; json(): unknown }>

export async function networks(report: Report): Promise<void> {
  const { agent, close } = await inProcess('ipam', 'l2', 'networks')
  try {
    for (let n = 0; n < PORTS; n++) plug(`tap${n}`)
    await agent.drift.check({ dryRun: false })
    await measure(agent, report)
  } finally {
    await close()
  }
}

function plug(name: string): void {
  const ip = (line: string) => execFileSync('ip', line.split(' '))
  ip(`link add ${name} type veth peer name ${name}p`)
  ip(`link set ${name}p up`)
  ip(`link set ${name} up master br-work`)
}

async function measure(agent: Agent, report: Report): Promise<void> {
  const call: Call = async (method, url, payload) => {
    const headers = { authorization: `Bearer ${TOKEN}` }
    const answer = await agent.app.inject({
      method: method as 'GET',
      url: `/api/v1/networks${url}`,
      headers,
      ...(payload && { payload }),
    })
    if (answer.statusCode >= 300) throw new Error(`${method} ${url}: ${answer.statusCode} ${answer.payload}`)
    return answer
  }
  for (const length of [24, 16]) await creation(call, length, report)
  const id = await create(call, 'wide', '10.0.0.0/16')
  await list(call, id, report, 'list_65533')
  await attaches(call, id, report, 'attach_none_bound', 3)
  await bindMany(agent, id)
  await quiet(report, 'searching_50k')
  await attaches(call, id, report, 'attach_50k_bound', 3)
  await list(call, id, report, 'list_65533_50k_bound')
  await pass(agent, report)
}

async function create(call: Call, name: string, cidr: string): Promise<string> {
  const answer = await call('POST', '', { name, cidr, gateway: cidr.replace(/0\/\d+$/, '1') })
  return (answer.json() as { network: { id: string } }).network.id
}

async function creation(call: Call, length: number, report: Report): Promise<void> {
  const times = { create: [] as number[], remove: [] as number[] }
  for (let round = -2; round < ROUNDS; round++) {
    const since = performance.now()
    const id = await create(call, 'lan', `10.0.0.0/${length}`)
    const made = performance.now()
    await call('DELETE', `/${id}`)
    if (round < 0) continue
    times.create.push(made - since)
    times.remove.push(performance.now() - made)
  }
  const note = `median of ${ROUNDS}`
  report({ figure: `create_${length}`, value: quantile(times.create, 0.5), unit: 'ms', goal: 20, note })
  report({ figure: `delete_${length}`, value: quantile(times.remove, 0.5), unit: 'ms', note })
}

async function list(call: Call, id: string, report: Report, figure: string): Promise<void> {
  const [walls, stalls]: [number[], number[]] = [[], []]
  let size = 0
  const cpu = cpuMs()
  for (let round = -1; round < LISTS; round++) {
    const end = watchStalls()
    const since = performance.now()
    size = (await call('GET', `/${id}/endpoints`)).payload.length
    if (round >= 0) walls.push(performance.now() - since)
    const stall = await end()
    if (round >= 0) stalls.push(stall)
  }
  const note = `median of ${LISTS}, ${(size / 1e6).toFixed(1)} MB`
  report({ figure: `${figure}_cpu`, value: cpu() / (LISTS + 1), unit: 'ms', note: 'CPU of one, mean' })
  report({ figure, value: quantile(walls, 0.5), unit: 'ms', goal: 400, note })
  report({ figure: `${figure}_stall`, value: quantile(stalls, 0.5), unit: 'ms', goal: 20, note: 'CPU, median' })
}

async function attaches(call: Call, id: string, report: Report, figure: string, goal: number): Promise<void> {
  const [attached, detached]: [number[], number[]] = [[], []]
  const end = watchStalls()
  const cpu = cpuMs()
  for (let n = -WARM_UP; n < ATTACHES; n++) {
    const since = performance.now()
    const answer = await call('POST', `/${id}/attach`, {})
    const bound = performance.now()
    const { endpoint } = answer.json() as { endpoint: { id: string } }
    await call('POST', `/${id}/endpoints/${endpoint.id}/detach`)
    if (n < 0) continue
    attached.push(bound - since)
    detached.push(performance.now() - bound)
  }
  const stall = await end()
  const note = `of ${ATTACHES}`
  const both = cpu() / (ATTACHES + WARM_UP)
  report({ figure: `${figure}_and_detach_cpu`, value: both, unit: 'ms', note: 'CPU of one of each, mean' })
  report({ figure: `${figure}_p50`, value: quantile(attached, 0.5), unit: 'ms', goal, note })
  report({ figure: `${figure}_p99`, value: quantile(attached, 0.99), unit: 'ms', note })
  report({ figure: `${figure}_detach_p50`, value: quantile(detached, 0.5), unit: 'ms', note })
  report({ figure: `${figure}_stall`, value: stall, unit: 'ms', note: 'CPU, longest meanwhile' })
}

async function bindMany({ pipeline }: Agent, id: string): Promise<void> {
  const now = new Date().toISOString()
  for (let at = 0; at < BOUND; at += BATCH) {
    await pipeline.mutate('networks', system('bench'), (tx) => {
      const network = findNetwork(tx, id)
      const changes = Array.from({ length: BATCH }, () => bindEndpoint(tx, network, { machine: '', port: '' }, now))
      return { result: undefined, touch: changes.flatMap(({ touch }) => touch), events: [] }
    })
  }
}

/** Nobody asks anything, but guests are looked for. */
async function quiet(report: Report, figure: string): Promise<void> {
  const end = watchStalls()
  const cpu = cpuMs()
  await new Promise((resolve) => setTimeout(resolve, 3000))
  report({
    figure: `${figure}_cpu`,
    value: cpu() / 30,
    unit: '% core',
    note: `${BOUND} silent MACs, ${PORTS} open ports`,
  })
  report({ figure: `${figure}_stall`, value: await end(), unit: 'ms', goal: 20, note: 'CPU, longest of 3 s' })
}

async function pass({ drift }: Agent, report: Report): Promise<void> {
  const [walls, stalls]: [number[], number[]] = [[], []]
  for (let round = -1; round < 5; round++) {
    const end = watchStalls()
    const since = performance.now()
    const { result } = await drift.check({ dryRun: true })
    if (result !== 'clean') throw new Error(`the kernel differs: ${result}`)
    if (round >= 0) walls.push(performance.now() - since)
    const stall = await end()
    if (round >= 0) stalls.push(stall)
  }
  report({ figure: 'pass_50k', value: quantile(walls, 0.5), unit: 'ms', note: 'drift, nothing found, median of 5' })
  report({ figure: 'pass_50k_stall', value: quantile(stalls, 0.5), unit: 'ms', goal: 20, note: 'CPU, median' })
}

/** What the CPU time of this process has grown by since, ms: on a busy machine the clock tells of others. */
function cpuMs(): () => number {
  const before = process.cpuUsage()
  return () => {
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1000
  }
}
