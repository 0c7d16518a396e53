/** Source NAT on real packets. */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { SNAT } from './area.ts'
import { ask, open } from './host.ts'
import { CLIENT, FAMILIES, lab, MATE, PROTOCOLS, PUBLIC, SERVER } from './lab.ts'

requireRoot(t)

t.test(
  'gw-14 gw-13 a source leaves by the device under the address of the node, until the rule is deleted',
  async (t) => {
    const { mate, client, snat, remove, held } = await lab(t)
    const sources = { 4: '10.9.0.0/24', 6: 'fd09::/64' }
    for (const family of FAMILIES) {
      const seen = async () => {
        const answers = await Promise.all(PROTOCOLS.map((proto) => ask(mate, proto, CLIENT[family], 8080)))
        return [...new Set(answers)]
      }
      const [own, node] = [[`${MATE[family]} client`], [`${PUBLIC[family]} client`]]
      t.same(await seen(), own, 'before')
      const elsewhere = await snat(sources[family], 'lan0')
      t.same(await seen(), own, 'by another device')
      // Nobody named a device, and the default route leads out of wan0.
      const id = await snat(sources[family])
      t.same(await seen(), node, 'translated')
      t.equal(await ask(mate, 'tcp', SERVER[family], 8080), `${MATE[family]} server`, 'not within its own network')
      t.equal(await ask(client, 'tcp', MATE[family], 8080), `${CLIENT[family]} mate`, 'not the other way')
      const wide = await snat(family === 4 ? '0.0.0.0/0' : '::/0', 'wan0')
      await remove(`${SNAT}/${id}`)
      t.same(await seen(), node, 'by the wider rule')
      await remove(`${SNAT}/${wide}`)
      t.same(await seen(), own, 'deleted')
      await remove(`${SNAT}/${elsewhere}`)
      t.same(held(`nat_snat${family}`), [])
    }
  },
)

t.test('D62 nothing is translated towards a network of the node', async (t) => {
  const { mate, snat, agent } = await lab(t)
  await snat('10.9.0.0/24', 'wan0')
  t.equal(await ask(mate, 'udp', CLIENT[4], 8080), `${PUBLIC[4]} client`)
  const { status } = await agent.call('POST', '/api/v1/networks', { name: 'own', cidr: '192.168.7.0/24' })
  t.equal(status, 201)
  t.equal(await ask(mate, 'udp', CLIENT[4], 8080), `${MATE[4]} client`)
})

t.test('gw-15 rules and translated connections outlive the agent', async (t) => {
  const { mate, snat, rules, agent } = await lab(t)
  await snat('10.9.0.0/24', 'wan0')
  await snat('fd09::/64', 'wan0')
  const before = await rules()
  const talks = await Promise.all(FAMILIES.map((family) => open(mate, 'tcp', CLIENT[family], 8080)))
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    await agent.kill(signal)
    for (const [at, family] of FAMILIES.entries()) t.equal(await talks[at]?.say(), `${PUBLIC[family]} client`, signal)
    await agent.restart()
    t.same(await rules(), before)
    for (const [at, family] of FAMILIES.entries()) {
      t.equal(await talks[at]?.say(), `${PUBLIC[family]} client`, 'goes on')
      t.equal(await ask(mate, 'tcp', CLIENT[family], 8080), `${PUBLIC[family]} client`, 'and new ones')
    }
  }
})
