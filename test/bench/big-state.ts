/** A state directory of a large node: made by the areas' own rules and routes over a plane in memory, so it cannot be one that no client could have made. */
import { sql } from 'drizzle-orm'
import pino from 'pino'
import type { Agent } from '../../core/agent.ts'
import { build } from '../../core/app.ts'
import type { Change, Db } from '../../core/area.ts'
import { hashSecret } from '../../core/gates/bearer.ts'
import { system } from '../../core/state/events.ts'
import { openOverrides } from '../../core/state/overrides.ts'
import { fakePlane } from '../../dataplane/plane.fake.ts'
import { putLimit } from '../../plugins/bandwidth/limits.ts'
import { createRecord, createZone } from '../../plugins/dns/rules.ts'
import { bindEndpoint } from '../../plugins/networks/endpoints.ts'
import { findNetwork } from '../../plugins/networks/rules.ts'
import { TOKEN } from './agent.ts'

export const SIZES = {
  rules: 10_000,
  networks: 50,
  endpoints: 50_000,
  zones: 100,
  records: 100_000,
  limits: 10_000,
  vips: 1000,
}

const BACKENDS = 4
/** Things of one change. */
const BATCH = 500
const quad = (base: number, n: number) => `${base}.${(n >> 16) & 255}.${(n >> 8) & 255}.${n & 255}`

/** Fills `stateDir`, which no agent uses; switches REST on, on port 7070 of every address. */
export async function makeBigState(stateDir: string): Promise<void> {
  openOverrides(`${stateDir}/overrides.json`).change((content) => {
    content.tokenHash = hashSecret(TOKEN).toString('hex')
    content.rest = true
    const limits = { max_records: '200000' }
    Object.assign(content.config, { api_rate_limit: '10000000', api_rate_burst: '1000000', ...limits })
  })
  const agent = await build({
    stateDir,
    configFile: `${stateDir}/none.json`,
    environment: {},
    log: pino({ level: 'error' }),
    openPlane: async () => fakePlane({ classifier: true }),
    clock: () => performance.now(),
  })
  try {
    await agent.licence.evaluate()
    // It is measured how the state is read, not how it is made.
    agent.store.write.run(sql.raw('PRAGMA synchronous = OFF'))
    const macs = await endpoints(agent)
    await inBatches(agent, 'bandwidth', SIZES.limits, (tx, n) =>
      putLimit(tx, { id: `l${n}`, target_mac: macs[n] ?? '', rate_bps: 100_000_000 }, { gbps: 0, max: SIZES.limits }),
    )
    await records(agent)
    await vips(agent)
    await rules(agent)
  } finally {
    await agent.close()
  }
}

async function ok({ app }: Agent, url: string, payload: object): Promise<Record<string, unknown>> {
  const headers = { authorization: `Bearer ${TOKEN}` }
  const answer = await app.inject({ method: 'POST', url: `/api/v1${url}`, headers, payload })
  if (answer.statusCode >= 300) throw new Error(`POST ${url}: ${answer.statusCode} ${answer.payload.slice(0, 200)}`)
  return answer.json()
}

/** One change for each 500 of `count` things, each by `rule`. */
async function inBatches(
  { pipeline }: Agent,
  area: string,
  count: number,
  rule: (tx: Db, n: number) => Change<unknown>,
): Promise<void> {
  for (let from = 0; from < count; from += BATCH) {
    await pipeline.mutate(area, system('bench'), (tx) => {
      const changes = Array.from({ length: Math.min(BATCH, count - from) }, (_, n) => rule(tx, from + n))
      const touch = new Map(changes.flatMap((change) => change.touch).map((ref) => [ref.id, ref]))
      return { result: undefined, touch: [...touch.values()], events: [] }
    })
  }
}

async function rules(agent: Agent): Promise<void> {
  for (let from = 0; from < SIZES.rules; from += 2000) {
    const batch = Array.from({ length: 2000 }, (_, at) => {
      const n = from + at
      const action = n % 3 === 0 ? 'drop' : 'accept'
      const source_ip = `${quad(10, n << 8)}/24`
      return { action, priority: (n * 7919) % 1000, protocol: 'tcp', source_ip, dest_port: 1 + (n % 60_000) }
    })
    await ok(agent, '/rules/batch', { rules: batch, atomic: true })
  }
}

/** Returns the MACs that are bound. */
async function endpoints(agent: Agent): Promise<string[]> {
  const macs: string[] = []
  const each = SIZES.endpoints / SIZES.networks
  const now = new Date().toISOString()
  for (let n = 0; n < SIZES.networks; n++) {
    const { network } = await ok(agent, '/networks', { name: `n${n}`, cidr: `${quad(10, n << 10)}/22` })
    const { id } = network as { id: string }
    await inBatches(agent, 'networks', each, (tx) => {
      const change = bindEndpoint(tx, findNetwork(tx, id), { machine: '', port: '' }, now)
      macs.push(change.result.mac)
      return change
    })
  }
  return macs
}

async function records(agent: Agent): Promise<void> {
  const terms = { max: 200_000, now: new Date() }
  const zones: number[] = []
  await inBatches(agent, 'dns', SIZES.zones, (tx, n) => {
    const change = createZone(tx, { name: `z${n}.example` }, terms)
    zones.push(change.result.zone.id)
    return change
  })
  await inBatches(agent, 'dns', SIZES.records, (tx, n) => {
    const zone_id = zones[n % SIZES.zones] ?? 0
    const name = `h${n}.z${n % SIZES.zones}.example`
    return createRecord(tx, { zone_id, name, type: 'A', value: quad(10, n) }, terms)
  })
}

async function vips(agent: Agent): Promise<void> {
  for (let n = 0; n < SIZES.vips; n++) {
    const [frontend_ip, id] = [`198.18.${n >> 8}.${n & 255}`, `v${n}`]
    await ok(agent, '/lb', { id, frontend_ip, frontend_port: 80, algorithm: n % 2 ? 'round-robin' : 'maglev' })
    for (let b = 0; b < BACKENDS; b++) {
      await ok(agent, `/lb/${id}/backends`, { id: `b${b}`, ip: `10.200.${n >> 8}.${n & 255}`, port: 8080 + b })
    }
  }
}
