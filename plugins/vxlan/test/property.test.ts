/** Random sequences of changes, of private networks among them: what is applied piece by piece is what a full rendering says. */

import t from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { fc } from '../../../test/property.ts'
import { desired } from '../desired.ts'
import { NETWORKS, vxlan } from './area.ts'

const area = await vxlan(t)
const PRIVATE = '/api/v1/networks'
const SUBNETS = ['', '10.0.0.0/24', '10.1.0.0/24', 'fd00::/64']
const NAMES = ['red', 'blue', 'green']

const vni = fc.integer({ min: 1, max: 4 })
const host = fc.constantFrom('a', 'b', 'c')
const mac = fc.constantFrom('', '02:00:00:00:00:01', '02:00:00:00:00:02')
const one = <T extends string, R>(path: T, rest: fc.Arbitrary<R>) => rest.map((it) => ({ kind: path, ...it }))
const change = fc.oneof(
  one('make', fc.record({ vni, subnet: fc.constantFrom(...SUBNETS), network: fc.constantFrom('', '', ...NAMES) })),
  one('remove', fc.record({ vni })),
  {
    weight: 3,
    arbitrary: one(
      'peer',
      fc.record({ vni, host, mac, vtep_ip: fc.constantFrom('192.0.2.2', '192.0.2.3', '2001:db8::2') }),
    ),
  },
  { weight: 3, arbitrary: one('unpeer', fc.record({ vni, host })) },
  one('network', fc.record({ name: fc.constantFrom(...NAMES), cidr: fc.constantFrom('10.0.0.0/24', '10.1.0.0/24') })),
  one('unnetwork', fc.record({ name: fc.constantFrom(...NAMES) })),
)
type Change = typeof change extends fc.Arbitrary<infer C> ? C : never

const ids = async () =>
  new Map(
    ((await area.call('GET', PRIVATE)).body.networks as { id: string; name: string }[]).map((it) => [it.name, it.id]),
  )

async function carry(it: Change): Promise<number> {
  const { call } = area
  switch (it.kind) {
    case 'make':
      return (await call('POST', NETWORKS, { vni: it.vni, subnet: it.subnet, network: it.network })).status
    case 'remove':
      return (await call('DELETE', `${NETWORKS}/${it.vni}`)).status
    case 'peer':
      return (await call('POST', `${NETWORKS}/${it.vni}/peers`, { host: it.host, mac: it.mac, vtep_ip: it.vtep_ip }))
        .status
    case 'unpeer':
      return (await call('DELETE', `${NETWORKS}/${it.vni}/peers/${it.host}`)).status
    case 'network':
      return (await call('POST', PRIVATE, { name: it.name, cidr: it.cidr, tenant_id: `ten-${it.name}` })).status
    case 'unnetwork':
      return (await call('DELETE', `${PRIVATE}/${(await ids()).get(it.name) ?? 'none'}`)).status
  }
}

const byKey = <T extends { key: string }>(entries: T[]) => entries.sort((a, b) => (a.key < b.key ? -1 : 1))

t.test('any sequence of changes, some of them refused: incremental state = full rendering', async (t) => {
  const seen = new Set<string>()
  const idle = area.planned()
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(change, fc.integer({ min: 0, max: 9 })), { maxLength: 30, size: 'max' }),
      async (all) => {
        const { plane, agent } = area
        for (const [it, luck] of all) {
          if (luck === 0) plane.refuse = new KernelRefusal('no')
          seen.add(`${it.kind} ${await carry(it)}`)
          plane.refuse = undefined
          const [applied, rendered] = await agent.pipeline.exclusively(async () => [
            byKey([...plane.entries.values()].filter(({ key }) => /^vxlan\/|firewall_open/.test(key))),
            byKey([...desired.all(agent.store.read, agent.config)]),
          ])
          if (JSON.stringify(applied) !== JSON.stringify(rendered))
            throw new Error(JSON.stringify({ applied, rendered }, null, 1))
        }
        for (let n = 1; n <= 4; n++) await carry({ kind: 'remove', vni: n })
        for (const name of NAMES) await carry({ kind: 'unnetwork', name })
        if (JSON.stringify(area.planned()) !== JSON.stringify(idle)) throw new Error(`left: ${area.planned()}`)
      },
    ),
    { numRuns: 200 },
  )
  const wanted = [
    'make 201',
    'make 400',
    'make 404',
    'make 409',
    'remove 200',
    'remove 404',
    'peer 201',
    'peer 404',
    'peer 409',
  ]
  for (const outcome of [...wanted, 'unpeer 200', 'network 201', 'unnetwork 200']) t.ok(seen.has(outcome), outcome)
})
