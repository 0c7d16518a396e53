/** After any sequence of changes: what the plane was told step by step is what rendering everything at once would give. */

import t from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { fc } from '../../../test/property.ts'
import { desired } from '../desired.ts'
import { FORWARD, nat, SNAT } from './area.ts'

const area = await nat(t)

const address = fc.constantFrom('192.0.2.1', '192.0.2.2', '2001:db8::1', '2001:db8:0::1', '10.0.0.5', 'fd00::5')
const port = fc.integer({ min: 1, max: 3 })
const block = fc.oneof(
  fc.tuple(fc.constantFrom('10.0.0.0', '10.0.255.255', '10.128.0.1'), fc.integer({ min: 0, max: 32 })),
  fc.tuple(fc.constantFrom('fd00::', 'fd00::ffff:0:1', '2001:db8::1'), fc.integer({ min: 0, max: 128 })),
)
const change = fc.oneof(
  fc.record({
    path: fc.constant(FORWARD),
    body: fc.record({ dest_ip: address, dest_port: port, target_ip: address, target_port: port }),
  }),
  fc.record({
    path: fc.constant(SNAT),
    body: fc.record({
      source_cidr: block.map(([ip, length]) => `${ip}/${length}`),
      interface: fc.constantFrom('eth0', 'eth1'),
    }),
  }),
  fc.record({ path: fc.constantFrom(FORWARD, SNAT), remove: fc.nat(20) }),
)

const byKey = <T extends { key: string }>(entries: T[]) => entries.sort((a, b) => (a.key < b.key ? -1 : 1))

t.test('any sequence of changes, some of them refused: incremental state = full rendering', async (t) => {
  const seen = new Set<string>()
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(change, fc.integer({ min: 0, max: 9 })), { maxLength: 30, size: 'max' }),
      async (all) => {
        const { call, plane, agent } = area
        for (const [{ path, ...what }, luck] of all) {
          if (luck === 0) plane.refuse = new KernelRefusal('no')
          const ids = (await area.rules()).map(({ id }) => id)
          const { status } =
            'remove' in what
              ? await call('DELETE', `${path}/${ids[what.remove % (ids.length || 1)] ?? 1}`)
              : await call('POST', path, what.body)
          plane.refuse = undefined
          seen.add(`${path.split('/').at(-1)} ${status}`)
          const both = await agent.pipeline.exclusively(async () => [
            byKey([...plane.entries.values()].filter(({ key }) => key.startsWith('nat/'))),
            byKey([...desired.all(agent.store.read, agent.config)]),
          ])
          if (JSON.stringify(both[0]) !== JSON.stringify(both[1])) throw new Error(JSON.stringify(both, null, 1))
        }
        for (const { id, type } of await area.rules()) {
          await call('DELETE', `${type === 'snat' ? SNAT : FORWARD}/${id}`)
        }
        if (area.elements().length > 0) throw new Error(`left: ${area.elements()}`)
      },
    ),
    { numRuns: 40 },
  )
  for (const path of ['forward', 'snat']) for (const status of [200, 201, 404, 409]) t.ok(seen.has(`${path} ${status}`))
})
