/** A 2xx is true where a change names a device that is not there: it is refused, or says that it waits, or the kernel has it. */
import t from 'tap'
import { startAgent } from './agent.ts'
import { netns, requireRoot } from './netns.ts'

requireRoot(t)
const NOPE = 'nope'
const REFUSED = [
  ['a route', '/routes', { destination: '192.0.2.0/24', interface: NOPE }],
  ['a floating IP', '/float', { ip: '192.0.2.7' }],
  ['a virtual address', '/lb', { id: 'v', frontend_ip: '192.0.2.8', frontend_port: 80, algorithm: 'round-robin' }],
  ['an overlay', '/vxlan/networks', { vni: 7 }],
  ['a port of a bridge', '/bridges/br-x/ports', { interface: NOPE }],
] as const

t.test('a device that is not there makes no 2xx untrue', async (t) => {
  const ns = netns(t, 'ad')
  const config = { uplink: NOPE, gateway_vip: '192.0.2.9', gateway_peer: '192.0.2.10' }
  const agent = await startAgent(t, { ns, config })
  const post = (path: string, body: object) => agent.call('POST', `/api/v1${path}`, body)
  t.equal((await post('/bridges', { name: 'br-x' })).status, 201)
  for (const [name, path, body] of REFUSED) {
    const { status, text } = await post(path, body)
    t.ok([400, 409].includes(status), `${name}: ${status} ${text}`)
    t.match(text, /nope|uplink|VTEP/, 'the answer names what is missing')
  }
  t.match(await post('/gateway/failback', {}), { status: 409, text: /nope/ })

  const rule = await post('/routes/rules', { priority: 100, iif: NOPE, table: 100 })
  t.equal(rule.status, 201)
  t.match(ns.run('ip', 'rule', 'show'), /^100:.*iif nope \[detached\] lookup 100/m, 'the kernel has it, by the name')
  const drop = await post('/rules', { action: 'drop', interface: NOPE, protocol: 'tcp', dest_port: 99 })
  t.equal(drop.status, 201, 'D67')
  const snat = await post('/gateway/snat', { source_cidr: '10.0.0.0/24' })
  t.match([snat.status, snat.body], [201, { rule: { pending: 'waiting for device nope' } }])
})
