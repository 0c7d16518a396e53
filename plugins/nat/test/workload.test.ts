/** Port forwards to machines in private networks of the node, where bridged frames meet the IP hooks. */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { FORWARD } from './area.ts'
import { ask } from './host.ts'
import { NEIGHBOUR_STATES, PUBLISHED, setNeighbours, site } from './site.ts'

requireRoot(t)
const PROTOCOLS = ['tcp', 'udp'] as const

t.test(
  'fwd-08 D61 a published port is reached from everywhere, whatever the node knows of its neighbours',
  async (t) => {
    const { node, client, network, member, publish } = await site(t)
    const lab = await network(1)
    const [a, b] = [await member(lab, 1, 2), await member(lab, 1, 3)]
    const id = await publish(a)
    t.equal(node.ns.run('cat', '/proc/sys/net/ipv4/conf/wan0/forwarding').trim(), '1')
    for (const state of NEIGHBOUR_STATES) {
      for (const proto of PROTOCOLS) {
        const name = `${proto}, neighbours ${state}`
        const from = (ns: typeof client) => {
          setNeighbours(node.ns, state, [a, b])
          return ask(ns, proto, PUBLISHED, 80)
        }
        t.equal(await from(client), '192.168.7.2 a', `${name}: from outside`)
        t.equal(await from(b.ns), '10.1.0.1 a', `${name}: from its network`)
        t.equal(await from(a.ns), '10.1.0.1 a', `${name}: from itself`)
        t.equal(await from(node.ns), '10.1.0.1 a', `${name}: from the node`)
      }
    }
    await node.ok('DELETE', `${FORWARD}/${id}`)
    t.equal(await ask(client, 'tcp', PUBLISHED, 80, { silent: true }), undefined)
  },
)
