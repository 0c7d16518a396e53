/** After any sequence of changes: what the plane was told step by step is what rendering everything at once would give. */
import t from 'tap'
import { sameEntry } from '../../../dataplane/entry.ts'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { buildArea } from '../../../test/build.ts'
import { fc } from '../../../test/property.ts'
import { desired } from '../desired.ts'
import { BANDWIDTH, macOf, POOLS, QUOTAS } from './lab.ts'

const area = await buildArea(t, 'bandwidth', { config: { api_rate_limit: '10000000', api_rate_burst: '1000000' } })

const mac = fc.integer({ min: 1, max: 4 }).map(macOf)
const id = fc.constantFrom('a', 'b', 'c')
const rate = fc.integer({ min: 1, max: 5 }).map((n) => n * 1_000_000)
const post = (path: string, body: fc.Arbitrary<object>) => body.map((it) => ['POST', path, it] as const)
const remove = (path: fc.Arbitrary<string>) => path.map((it) => ['DELETE', it, undefined] as const)
const change = fc.oneof(
  post(
    BANDWIDTH,
    fc.record(
      {
        id,
        target_mac: mac,
        rate_bps: rate,
        guaranteed_bps: fc.constantFrom(0, 1_000_000),
        direction: fc.constantFrom('up', 'down', 'both'),
        pool_id: fc.constantFrom('a', 'b', ''),
      },
      { requiredKeys: ['id', 'target_mac'] },
    ),
  ),
  post(POOLS, fc.record({ id, total_bps: rate })),
  post(`${POOLS}/members`, fc.record({ pool_id: id, member_mac: mac }, { requiredKeys: ['pool_id', 'member_mac'] })),
  post(
    QUOTAS,
    fc.record({
      id,
      mac,
      monthly_limit_bytes: rate,
      action: fc.constantFrom('notify', 'throttle', 'block'),
      enforced: fc.boolean(),
    }),
  ),
  remove(id.map((it) => `${BANDWIDTH}/${it}`)),
  remove(id.map((it) => `${POOLS}/${it}`)),
  remove(fc.tuple(id, mac).map(([pool, of]) => `${POOLS}/${pool}/members/${of}`)),
  remove(mac.map((it) => `${QUOTAS}/${it}`)),
)

t.test('any sequence of changes, some of them refused: incremental state = full rendering', async (t) => {
  const seen = new Set<string>()
  const { call, plane, agent } = area
  const differing = () =>
    agent.pipeline.exclusively(async () => {
      const all = new Map([...desired.all(agent.store.read, agent.config)].map((entry) => [entry.key, entry]))
      const keys = new Set([...all.keys(), ...plane.entries.keys()])
      return [...keys].filter((key) => !sameEntry(all.get(key), plane.entries.get(key)))
    })
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(change, fc.integer({ min: 0, max: 9 })), { maxLength: 40, size: 'max' }),
      async (all) => {
        for (const [[method, path, body], luck] of all) {
          if (luck === 0) plane.refuse = new KernelRefusal('no')
          const { status } = await call(method, path, body)
          plane.refuse = undefined
          if (![200, 400, 404, 409].includes(status)) throw new Error(`${method} ${path}: ${status}`)
          seen.add(`${method} ${status}`)
          const wrong = await differing()
          if (wrong.length > 0) throw new Error(`${method} ${path} ${JSON.stringify(body)}: ${wrong}`)
        }
        for (const it of ['a', 'b', 'c']) await call('DELETE', `${BANDWIDTH}/${it}`)
        for (const it of ['a', 'b', 'c']) await call('DELETE', `${POOLS}/${it}`)
        for (const n of [1, 2, 3, 4]) await call('DELETE', `${QUOTAS}/${macOf(n)}`)
        const left = [...plane.entries.keys()].filter((key) => !key.startsWith('bandwidth/link/'))
        if (left.length > 0) throw new Error(`left: ${left}`)
      },
    ),
    { numRuns: Number(process.env.RUNS ?? 25) },
  )
  for (const status of ['POST 200', 'POST 400', 'POST 404', 'POST 409', 'DELETE 200', 'DELETE 404'])
    t.ok(seen.has(status), status)
})
