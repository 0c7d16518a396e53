/** After any sequence of changes, some refused by the kernel: the plane, a full rendering and a plain model agree. */

import t from 'tap'
import type { VipEntry } from '../../../dataplane/bpf/lb/entries.ts'
import type { Entry } from '../../../dataplane/entry.ts'
import { fakePlane } from '../../../dataplane/plane.fake.ts'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { fc } from '../../../test/property.ts'
import { desired } from '../desired.ts'
import { LB, lbArea } from './area.ts'
import { lane } from './lane.ts'

/** Whom the checks find well. */
const well = new Set<string>()
const area = await lbArea(t, {
  plane: fakePlane({ balancer: lane === 'programs' }),
  probe: async ({ address }) => (well.has(address) ? undefined : 'sick'),
  config: { max_vip_backends: '3' },
})
/** What there is without any VIP. */
const always = area.held().join()

const vip = fc.constantFrom('v1', 'v1', 'v2')
const backend = fc.constantFrom('b1', 'b2', 'b3', 'b4')
const ip = fc.oneof(
  { weight: 5, arbitrary: fc.constantFrom('10.0.0.1', '10.0.0.2', '10.0.0.3', '10.0.0.4') },
  fc.constantFrom('192.0.2.1', '2001:db8::9'),
)
const change = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('add' as const),
      vip,
      body: fc.record({
        frontend_ip: fc.constantFrom('192.0.2.1', '192.0.2.2', '2001:db8::1'),
        frontend_port: fc.constantFrom(0, 80, 80),
        algorithm: fc.constantFrom('maglev', 'weighted'),
        health_check: fc.constantFrom({ type: '' }, { type: 'tcp', threshold: 1 }),
      }),
    }),
  },
  fc.record({ do: fc.constant('delete' as const), vip }),
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('join' as const),
      vip,
      backend,
      ip,
      weight: fc.integer({ min: 0, max: 2 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('leave' as const), vip, backend }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('say' as const), vip, backend, healthy: fc.boolean() }) },
  fc.record({ do: fc.constant('check' as const), ip, well: fc.boolean() }),
  fc.record({ do: fc.constant('wait' as const), seconds: fc.constantFrom(1, 5, 400) }),
  fc.record({ do: fc.constant('uplink' as const), uplink: fc.constantFrom('eth0', 'eth1') }),
)
type Step = typeof change extends fc.Arbitrary<infer T> ? T : never

async function carryOut(step: Step): Promise<string> {
  const { call, pass, set } = area
  switch (step.do) {
    case 'add':
      return `add ${(await call('POST', LB, { id: step.vip, ...step.body })).status}`
    case 'delete':
      return `delete ${(await call('DELETE', `${LB}/${step.vip}`)).status}`
    case 'join': {
      const body = { id: step.backend, ip: step.ip, weight: step.weight }
      return `join ${(await call('POST', `${LB}/${step.vip}/backends`, body)).status}`
    }
    case 'leave':
      return `leave ${(await call('DELETE', `${LB}/${step.vip}/backends/${step.backend}`)).status}`
    case 'say': {
      const path = `${LB}/${step.vip}/backends/${step.backend}/health`
      return `say ${(await call('POST', path, { healthy: step.healthy })).status}`
    }
    case 'check':
      well[step.well ? 'add' : 'delete'](step.ip)
      return 'check'
    case 'wait':
      // Second by second, as time does, but for what takes long.
      for (let left = step.seconds; left > 0; left -= 5) await pass(Math.min(left, 5) * 1000)
      return 'wait'
    case 'uplink':
      await set({ uplink: step.uplink })
      return 'uplink'
  }
}

const byKey = (entries: Iterable<Entry>) => [...entries].sort((a, b) => (a.key < b.key ? -1 : 1))

/** What must hold whatever came before. */
function amiss(
  entries: readonly Entry[],
  vips: readonly { id: string; backends: { ip: string; port: number }[] }[],
): string[] {
  const wrong: string[] = []
  const rendered = entries.filter((it): it is VipEntry => it.kind === 'vip')
  for (const { id, address, backends } of rendered) {
    const names = backends.map((one) => one.id)
    const targets = backends.map((one) => `${one.address} ${one.port}`)
    if (new Set(names).size !== names.length || new Set(targets).size !== targets.length) wrong.push(`${id}: one twice`)
    if ([...names].sort().join() !== names.join()) wrong.push(`${id}: not in order`)
    const live = backends.filter((one) => one.state !== 'draining').map((one) => `${one.address} ${one.port}`)
    const shown = vips.find((it) => it.id === id)?.backends.map((one) => `${one.ip} ${one.port}`)
    if ([...live].sort().join() !== shown?.sort().join()) wrong.push(`${id}: ${live} is not ${shown}`)
    if (names.some((name) => name.length > 64)) wrong.push(`${id}: a name that is too long`)
    if (!entries.some((it) => it.kind === 'address' && it.address.startsWith(`${address}/`)))
      wrong.push(`${id}: no address`)
  }
  return wrong
}

t.test('lb-24 any sequence of changes, some of them refused: incremental state = full rendering', async (t) => {
  const seen = new Set<string>()
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(change, fc.integer({ min: 0, max: 9 })), { maxLength: 40, size: 'max' }),
      async (all) => {
        const { call, plane, agent } = area
        for (const [step, luck] of all) {
          // A refused setting is the operator's to hear, and stays to be carried out.
          if (luck === 0 && step.do !== 'uplink') plane.refuse = new KernelRefusal('no')
          seen.add(await carryOut(step))
          plane.refuse = undefined
          const held = byKey([...plane.entries.values()].filter(({ key }) => key.startsWith('lb/')))
          const full = byKey(desired(plane.kinds).all(agent.store.read, agent.config))
          if (JSON.stringify(held) !== JSON.stringify(full)) throw new Error(JSON.stringify([held, full], null, 1))
          const { body } = await call('GET', LB)
          const wrong = amiss(held, body.load_balancers as Parameters<typeof amiss>[1])
          if (wrong.length > 0) throw new Error(wrong.join('; '))
        }
        for (const id of ['v1', 'v2', 'v3']) await call('DELETE', `${LB}/${id}`)
        if (area.held().join() !== always) throw new Error(`left: ${area.held()}`)
      },
    ),
    { numRuns: 60 },
  )
  for (const what of [
    'add 201',
    'add 409',
    'delete 200',
    'join 200',
    'join 409',
    'join 400',
    'leave 200',
    'leave 404',
    'say 200',
  ]) {
    t.ok(seen.has(what), what)
  }
})
