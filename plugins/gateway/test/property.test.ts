/** After any sequence of orders, settings, restarts and boots: the plane, a full rendering and a plain model agree. */
import { sql } from 'drizzle-orm'
import t from 'tap'
import { fakePlane } from '../../../dataplane/plane.fake.ts'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { scratch } from '../../../test/build.ts'
import { fc } from '../../../test/property.ts'
import { bootId } from '../boot.ts'
import { desiredIn } from '../desired.ts'
import { FAILBACK, FAILOVER, gatewayArea, VIP } from './area.ts'

type Step =
  | { do: 'failover' | 'failback'; refuse: boolean }
  | { do: 'set'; values: Record<string, string> }
  | { do: 'restart' | 'boot' }

const setting = (key: string, ...values: string[]) => fc.constantFrom(...values).map((value) => ({ [key]: value }))
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom('failover' as const, 'failback' as const),
      refuse: fc.nat(4).map((n) => n === 0),
    }),
  },
  {
    weight: 5,
    arbitrary: fc
      .oneof(
        setting('gateway_vip', '', VIP, `${VIP}/24,2001:db8::1`),
        setting('gateway_peer', '', '192.0.2.2'),
        setting('gateway_preferred', 'on', 'off'),
        setting('uplink', 'eth0', 'eth1'),
      )
      .map((values) => ({ do: 'set' as const, values })),
  },
  { weight: 1, arbitrary: fc.constantFrom({ do: 'restart' as const }, { do: 'boot' as const }) },
)

interface Model {
  role: 'none' | 'active' | 'standby'
  ordered: boolean
  config: Record<string, string>
}

/** What the specification and the decisions say, once more. Answers the status of an order. */
function move(model: Model, one: Step): number {
  const { config } = model
  if (one.do === 'set') Object.assign(config, one.values)
  const [vip, peer] = [config.gateway_vip !== '', config.gateway_peer !== '']
  if (one.do === 'failover' || one.do === 'failback') {
    if (!vip) return 503
    const active = one.do === 'failback'
    if (active && model.role === 'standby' && peer && config.gateway_preferred === 'off') return 409
    if (one.refuse && (model.role === 'active') !== active) return 409
    Object.assign(model, { role: active ? 'active' : 'standby', ordered: !active })
    return 200
  }
  if (one.do === 'boot' && peer && model.role === 'active') model.role = 'standby'
  if (!vip) Object.assign(model, { role: 'none', ordered: false })
  else if (!model.ordered && !peer) model.role = 'active'
  else if (model.role === 'none') model.role = 'standby'
  return 0
}

function equal(a: unknown, b: unknown, what: string): void {
  const [left, right] = [JSON.stringify(a), JSON.stringify(b)]
  if (left !== right) throw new Error(`${what}: ${left} is not ${right}`)
}

t.test('gw-03 D86 any sequence: plane = full rendering = model', async (t) => {
  const seen = new Set<string>()
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 20 }), async (steps) => {
      const [stateDir, plane] = [scratch(t), fakePlane()]
      const model: Model = {
        role: 'none',
        ordered: false,
        config: { gateway_vip: '', gateway_peer: '', gateway_preferred: 'on', uplink: 'eth0' },
      }
      let area = await gatewayArea(t, { stateDir, plane, config: model.config })
      for (const one of steps) {
        const status = move(model, one)
        if (one.do === 'set') await area.set(one.values)
        else if (one.do === 'failover' || one.do === 'failback') {
          plane.refuse = one.refuse ? new KernelRefusal('made up') : undefined
          const answer = await area.call('POST', one.do === 'failover' ? FAILOVER : FAILBACK)
          plane.refuse = undefined
          equal(answer.status, status, one.do)
        } else {
          if (one.do === 'boot') {
            area.agent.store.write.run(sql`UPDATE gateway_role SET boot = 'another' WHERE boot <> ''`)
            plane.entries.clear()
          }
          await area.agent.close()
          area = await gatewayArea(t, { stateDir, plane, config: model.config })
        }
        seen.add(`${one.do} ${status} ${model.role}`)
        const said = await area.state()
        equal(said, model.role === 'active' ? 'active' : 'standby', `after ${JSON.stringify(one)}`)
        const vips = model.role === 'active' ? (model.config.gateway_vip ?? '').split(',').filter(Boolean) : []
        equal(area.held().length, vips.length, 'addresses')
        const rendered = [...desiredIn(bootId).all(area.agent.store.read, area.agent.config)]
        equal(area.held(), rendered.map(({ key }) => key).sort(), 'the plane is a full rendering')
        equal(
          area.held().every((key) => key.startsWith(`gateway/address/${model.config.uplink}/`)),
          true,
          'on the uplink',
        )
      }
      await area.agent.close()
    }),
    { numRuns: Number(process.env.RUNS ?? 25), interruptAfterTimeLimit: 20_000 },
  )
  t.ok(seen.has('failback 200 active') && seen.has('failover 200 standby'), `control: ${[...seen].sort().join(', ')}`)
})
