import '../../../../test/inside.ts'
import { execFileSync } from 'node:child_process'
import t from 'tap'
import { here } from '../../../../test/inside.ts'
import { netnsNamed, requireRoot } from '../../../../test/netns.ts'
import { run } from '../../test/support.ts'
import type { VipEntry } from '../entries.ts'
import { beyondNft, fallbackChains, fallbackRules, fallbackSkeleton } from '../fallback.ts'
import { backend, backendAddress6, CLIENT, lab, NODE, outsideAddress, tallied, VIP, VIP6, vip } from './lab.ts'
import { machine } from './machine.ts'

requireRoot(t)

const it = await lab(t, 2)
for (const [n, one] of it.backends.entries()) {
  for (const protocol of ['tcp', 'udp'] as const) await one.tell('listen', { protocol, port: 8080, name: `b${n + 1}` })
}
const node = machine(netnsNamed(t, here ?? ''))
const two = [backend(1), backend(2)]
for (const setting of ['net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1']) run('sysctl', '-qw', setting)
const at = { address: VIP, port: 80 }

/** Lets nft balance by these entries and no others. */
function rule(...entries: VipEntry[]): void {
  const rules = entries.flatMap(fallbackRules).sort((a, b) => (a.rank.join() < b.rank.join() ? -1 : 1))
  const lines = rules.map(({ list, text }) => `add rule inet stratum ${list} ${text}`)
  const input = [
    'add table inet stratum',
    'delete table inet stratum',
    'add table inet stratum',
    fallbackSkeleton,
    ...fallbackChains.flatMap(({ chain, rules }) => rules.map((text) => `add rule inet stratum ${chain} ${text}`)),
    ...lines,
  ].join('\n')
  execFileSync('nft', ['-f', '-'], { input: `${input}\n`, stdio: ['pipe', 'inherit', 'inherit'] })
}

t.test('each algorithm but least-conn, TCP and UDP, both families', async (t) => {
  rule(vip({ backends: two }))
  t.same(tallied(await it.client.tell('ask', { ...at, count: 10 })), { b1: 5, b2: 5 })
  t.ok((await it.client.tell('ask', at))[0]?.endsWith(` ${CLIENT}`), 'the client keeps its address')
  t.match(await node.tell('ask', at), [/^b/], 'the node itself')
  t.match(await it.backends[0]?.tell('ask', { ...at, count: 2 }), [/^b/, /^b/], 'a backend itself')
  rule(vip({ backends: two, protocol: 'udp' }))
  t.match(await it.client.tell('ask', { ...at, protocol: 'udp' }), [/^b/])
  rule(vip({ algorithm: 'weighted', backends: [backend(1, { weight: 9 }), backend(2, { weight: 0 })] }))
  t.same(tallied(await it.client.tell('ask', { ...at, count: 5 })), { b1: 5 })
  for (const algorithm of ['maglev', 'consistent-hash', 'source-hash'] as const) {
    rule(vip({ algorithm, backends: two }))
    const seen = Object.keys(tallied(await it.client.tell('ask', { ...at, count: 16 }))).length
    t.equal(seen, algorithm === 'source-hash' ? 1 : 2, algorithm)
  }
  const six = [1, 2].map((n) => backend(n, { address: backendAddress6(n) }))
  rule(vip({ address: VIP6, backends: six }))
  t.same(tallied(await it.client.tell('ask', { address: VIP6, port: 80, count: 4 })), { b1: 2, b2: 2 })
})

t.test('a backend off the node, every port, and nobody at all', async (t) => {
  const outside = it.outside(1)
  await outside.tell('listen', { protocol: 'tcp', port: 8080, name: 'o1' })
  rule(vip({ backends: [backend(1, { address: outsideAddress(1) })] }))
  t.same(await it.client.tell('ask', at), [`o1 ${NODE}`])
  rule(vip({ port: 0, backends: [backend(1, { port: 0 })] }), vip({ id: 'none', backends: [] }))
  t.same(await it.client.tell('ask', { address: VIP, port: 8080 }), [`b1 ${CLIENT}`])
  rule(vip({ port: 0, backends: [backend(1, { port: 0 })] }), vip({ id: 'none', port: 8080, backends: [] }))
  t.same(await it.client.tell('ask', { address: VIP, port: 8080 }), ['ECONNREFUSED'], 'not by the one for every port')
  await outside.ns.remove()
  rule(vip({ backends: [backend(1, { state: 'down' })] }))
  t.same(await it.client.tell('ask', at), ['ECONNREFUSED'])
})

t.test('what nft cannot do is refused, not done otherwise', async (t) => {
  for (const more of [{ algorithm: 'least-conn' }, { dsr: true }] as const) {
    t.ok(beyondNft(vip(more)))
    rule(vip({ ...more, backends: two }))
    t.same(await it.client.tell('ask', at), ['ECONNREFUSED'])
  }
  t.notOk(beyondNft(vip()))
})
