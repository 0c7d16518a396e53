import '../../../../test/inside.ts'
import { createServer } from 'node:net'
import t from 'tap'
import { requireRoot } from '../../../../test/netns.ts'
import { parsePrefix } from '../../../nft/text.ts'
import type { FilterMatch, FilterRule } from '../../firewall/entries.ts'
import { backend, CLIENT, lab, VIP, vip } from './lab.ts'

requireRoot(t)

const it = await lab(t, 1)
await it.backends[0]?.tell('listen', { protocol: 'tcp', port: 8080, name: 'b1' })
const at = { address: VIP, port: 80 }
const unheard = { timeoutMs: 300 }
const { client, classifier } = it
const entry = vip({ backends: [backend(1)] })
await it.put(entry)

const rule = (match: FilterMatch, accept = false, fresh = false): FilterRule => ({
  kind: 'filter',
  key: 'firewall/rule/1',
  id: 1,
  rank: [1, 1, 1],
  accept,
  match,
  ...(fresh && { fresh }),
})
const certain = <T>(value: T | undefined): T => {
  if (value === undefined) throw new Error('not given')
  return value
}
const prefix = (text: string) => certain(parsePrefix(text))

const REASONS: readonly [string, FilterMatch][] = [
  ['the virtual address', { dest: prefix(`${VIP}/32`) }],
  ['its port', { protocol: 'tcp', destPorts: [80, 80] }],
  ['the source', { source: prefix(`${CLIENT}/32`) }],
  ['the device', { interface: 'up0' }],
  ['the MAC address', { mac: /link\/ether (\S+)/.exec(client.ns.run('ip', 'link', 'show', 'eth0'))?.[1] ?? '' }],
]
for (const [what, match] of REASONS) {
  t.test(`a rule that drops by ${what} holds for a virtual address`, async (t) => {
    t.same(await client.tell('ask', at), [`b1 ${CLIENT}`])
    await classifier.rules.apply([{ after: rule(match) }])
    t.same(await client.tell('ask', { ...at, ...unheard }), ['timeout'])
    t.ok((classifier.filter.count(1)?.packets ?? 0n) > 0n, 'and counts')
    await classifier.rules.apply([{ before: rule(match) }])
    t.same(await client.tell('ask', at), [`b1 ${CLIENT}`])
  })
}

t.test('rules see the address that the client asked for, not that of the backend', async (t) => {
  const match: FilterMatch = { dest: prefix('10.9.0.11/32') }
  await classifier.rules.apply([{ after: rule(match) }])
  t.same(await client.tell('ask', at), [`b1 ${CLIENT}`])
  await classifier.rules.apply([{ before: rule(match) }])
})

t.test('the default deny holds, and a rule that accepts lets in', async (t) => {
  const deny = { kind: 'filter_default', key: 'firewall/default', accept: false } as const
  await classifier.defaults.apply([{ after: deny }])
  t.same(await client.tell('ask', { ...at, ...unheard }), ['timeout'])
  const match: FilterMatch = { dest: prefix(`${VIP}/32`), protocol: 'tcp', destPorts: [80, 80] }
  await classifier.rules.apply([{ after: rule(match, true) }])
  t.same(await client.tell('ask', at), [`b1 ${CLIENT}`])
  const { handle } = await client.tell('open', at)
  await classifier.rules.apply([{ before: rule(match, true) }])
  t.equal(await client.tell('say', { handle, text: 'admitted before' }), 'same')
  await classifier.defaults.apply([{ before: deny, after: { ...deny, accept: true } }])
  const fresh = rule({ source: prefix(`${CLIENT}/32`) }, false, true)
  await classifier.rules.apply([{ after: fresh }])
  t.equal(
    await client.tell('say', { handle, text: 'no longer', ...unheard }),
    'timeout',
    'a drop for connections that stand',
  )
  await classifier.rules.apply([{ before: fresh }])
})

t.test('what the load balancer refuses, the node does not answer in its place', async (t) => {
  const server = createServer((socket) => socket.end('the node itself\n')).listen(80)
  await it.apply({ before: entry })
  t.same(await client.tell('ask', at), ['the node itself'])
  await it.put(entry)
  const match: FilterMatch = { dest: prefix(`${VIP}/32`) }
  await classifier.rules.apply([{ after: rule(match) }])
  t.same(await client.tell('ask', { ...at, ...unheard }), ['timeout'])
  await classifier.rules.apply([{ before: rule(match) }])
  server.close()
})

t.same(it.problems, [])
