/** One durable rule by the API with few and with many there: two whole agents, asked in turn. */
import http from 'node:http'
import { type RunningAgent, startAgent } from '../agent.ts'
import { netns, type Scope } from '../netns.ts'
import { quantile, type Report } from './figure.ts'

const [FEW, MANY] = [10, 10_000]
const WARM_UP = 30
const SAMPLES = 300
const BATCH = 2000

type Call = (method: string, path: string, body?: unknown) => Promise<{ status: number; body: unknown }>

export async function rest(scope: Scope, report: Report): Promise<void> {
  const lanes = []
  for (const present of [FEW, MANY]) {
    const agent = await startAgent(scope, { ns: netns(scope, 'rest') })
    lanes.push({ present, agent, call: keptAlive(scope, agent), took: [] as number[] })
  }
  for (const { present, call } of lanes) await fill(call, present)
  for (let n = -WARM_UP; n < SAMPLES; n++) {
    for (const { call, took } of lanes) {
      const since = performance.now()
      const { status, body } = await call('POST', '/api/v1/rules', rule(50_000 + WARM_UP + n))
      const ms = performance.now() - since
      if (status !== 201) throw new Error(`POST /rules: ${status} ${JSON.stringify(body)}`)
      if (n >= 0) took.push(ms)
      await call('DELETE', `/api/v1/rules/${(body as { rule: { id: number } }).rule.id}`)
    }
  }
  const [few = [], many = []] = lanes.map(({ took }) => took)
  for (const { present, took } of lanes) {
    const note = `control socket, p99 ${quantile(took, 0.99).toFixed(2)} ms, of ${SAMPLES}`
    report({ figure: `post_rule_p50_at_${present}`, value: quantile(took, 0.5), unit: 'ms', note })
  }
  const value = quantile(many, 0.5) / quantile(few, 0.5)
  report({ figure: 'post_rule_10k_over_10', value, unit: 'times', goal: 1.3 })
}

/** Scattered over priorities, so that they come between the others. */
const rule = (n: number) => ({
  action: n % 3 === 0 ? 'drop' : 'accept',
  priority: (n * 7919) % 1000,
  protocol: 'tcp',
  source_ip: `10.${(n >> 8) & 255}.${n & 255}.0/24`,
  dest_port: 1 + (n % 60_000),
})

async function fill(call: Call, count: number): Promise<void> {
  for (let at = 0; at < count; at += BATCH) {
    const rules = Array.from({ length: Math.min(BATCH, count - at) }, (_, n) => rule(at + n))
    const { status, body } = await call('POST', '/api/v1/rules/batch', { rules, atomic: true })
    if (status !== 200) throw new Error(`batch: ${status} ${JSON.stringify(body).slice(0, 200)}`)
  }
}

/** Over one connection to the control socket, which can be reached from every namespace. */
function keptAlive(scope: Scope, { socket }: RunningAgent): Call {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  scope.teardown(() => agent.destroy())
  return (method, path, body) =>
    new Promise((resolve, reject) => {
      const json = body === undefined ? '' : JSON.stringify(body)
      const headers =
        json === '' ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(json) }
      const request = http.request({ socketPath: socket, method, path, headers, agent }, async (response) => {
        let text = ''
        for await (const part of response.setEncoding('utf8')) text += part
        resolve({ status: response.statusCode ?? 0, body: text === '' ? undefined : JSON.parse(text) })
      })
      request.on('error', reject).end(json)
    })
}
