/** After any sequence of changes: what the plane was told step by step is what rendering everything at once would give. */

import t from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { fc } from '../../../test/property.ts'
import { desired } from '../desired.ts'
import { BGP, bgpArea } from './area.ts'

const area = await bgpArea(t)
const addr = fc.constantFrom('192.0.2.2', '192.0.2.3', '192.0.2.4', 'fd00::2')
const as = fc.constantFrom(65_001, 65_002, 65_100)
const name = fc.constantFrom('a', 'b')
const prefix = fc.constantFrom('198.51.100.0/24', '203.0.113.0/24', '2001:db8::/32')
const direction = fc.constantFrom('import', 'export')
const hop = fc.constantFrom(undefined, '192.0.2.9', '192.0.2.10', 'fd00::9')

const change = fc.oneof(
  fc
    .record({ peer_addr: addr, peer_as: as, local_as: as, bfd_enabled: fc.boolean() })
    .map((body) => ['POST', '/neighbors', body] as const),
  addr.map((it) => ['DELETE', `/neighbors/${encodeURIComponent(it)}`, undefined] as const),
  fc
    .record({ prefix, next_hop: hop, communities: fc.constantFrom([], ['1:1'], ['no-export', '1:1']) })
    .map((body) => ['POST', '/announce', body] as const),
  prefix.map((it) => ['POST', '/withdraw', { prefix: it }] as const),
  fc
    .record({ name, entries: fc.array(fc.record({ prefix, action: fc.constantFrom('', 'deny') }), { maxLength: 2 }) })
    .map((body) => ['POST', '/prefix-lists', body] as const),
  fc
    .record({
      name,
      entries: fc.array(fc.record({ match_prefix: fc.constantFrom('', 'a', 'b'), set_med: fc.constantFrom(1, 2) }), {
        maxLength: 2,
      }),
    })
    .map((body) => ['POST', '/route-maps', body] as const),
  fc
    .tuple(direction, addr, name)
    .map(([dir, neighbor, route_map]) => ['POST', `/policy/${dir}`, { neighbor, route_map }] as const),
  fc
    .tuple(direction, addr)
    .map(([dir, it]) => ['DELETE', `/policy/${dir}/${encodeURIComponent(it)}`, undefined] as const),
  fc
    .tuple(fc.constantFrom('prefix-lists', 'route-maps'), name)
    .map(([what, it]) => ['DELETE', `/${what}/${it}`, undefined] as const),
)

t.test('any sequence of changes, some of them refused: incremental state = full rendering', async (t) => {
  const { call, plane, agent, held } = area
  const seen = new Set<number>()
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(change, fc.integer({ min: 0, max: 9 })), { maxLength: 40, size: 'max' }),
      async (all) => {
        for (const [[method, path, body], luck] of all) {
          if (luck === 0) plane.refuse = new KernelRefusal('no')
          seen.add((await call(method, `${BGP}${path}`, body)).status)
          plane.refuse = undefined
          const [now, whole] = await agent.pipeline.exclusively(async () => [
            [...plane.entries.values()].filter(
              (it) => it.key.startsWith('bgp/') || it.key.startsWith('firewall/firewall_open'),
            ),
            [...desired.all(agent.store.read, agent.config)],
          ])
          const text = (entries: readonly { key: string }[] = []) =>
            entries
              .map((it) => JSON.stringify(it))
              .sort()
              .join('\n')
          if (text(now) !== text(whole)) throw new Error(`${method} ${path}\n${text(now)}\n---\n${text(whole)}`)
        }
        for (const it of ['192.0.2.2', '192.0.2.3', '192.0.2.4', 'fd00%3A%3A2'])
          await call('DELETE', `${BGP}/neighbors/${it}`)
        if (held().length > 0) throw new Error(`left: ${held()}`)
      },
    ),
    { numRuns: Number(process.env.RUNS ?? 25), seed: 5 },
  )
  t.same([...seen].sort(), [200, 201, 400, 404, 409])
})
