/** Port forwards as machines in other private networks of the node meet them. */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { FORWARD } from './area.ts'
import { ask } from './host.ts'
import { PUBLISHED, setNeighbours, site } from './site.ts'

requireRoot(t)
const PROTOCOLS = ['tcp', 'udp'] as const

t.test('fwd-08 D61 machines of other networks reach a published port, and nothing else of its network', async (t) => {
  const { node, client, network, member, publish } = await site(t)
  const { id: tenant } = (await node.ok('POST', '/api/v1/tenant', { name: 'other' })).tenant as { id: string }
  const a = await member(await network(1), 1, 2)
  const askers = [
    { who: 'of the same tenant', asker: await member(await network(2), 2, 2) },
    { who: 'of another tenant', asker: await member(await network(3, { tenant_id: tenant }), 3, 2) },
    { who: 'with source NAT', asker: await member(await network(4, { snat: true }), 4, 2) },
  ]
  const silent = { silent: true }
  const id = await publish(a)
  for (const { who, asker } of askers) {
    for (const proto of PROTOCOLS) {
      const name = `${proto}, a machine ${who}`
      setNeighbours(node.ns, 'none', [a, asker])
      t.equal(await ask(asker.ns, proto, PUBLISHED, 80), '10.1.0.1 a', `${name}: the published port`)
      t.equal(await ask(asker.ns, proto, a.ip, 8080, silent), undefined, `${name}: the machine itself`)
    }
    t.notOk(asker.guest.pings(a.ip), `a machine ${who} gets no echo`)
    t.notOk(a.guest.pings(asker.ip), `and gives none`)
  }
  t.equal(await ask(client, 'tcp', PUBLISHED, 80), '192.168.7.2 a', 'from outside, as ever')
  await node.ok('DELETE', `${FORWARD}/${id}`)
  for (const { asker } of askers) t.equal(await ask(asker.ns, 'udp', PUBLISHED, 80, silent), undefined)
})
