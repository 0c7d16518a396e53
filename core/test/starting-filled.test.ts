/** While it starts, an agent with something of everything tells of it by the store alone, or has the call wait. */
import t from 'tap'
import { buildAgent, scratch } from '../../test/build.ts'
import { early, waits } from '../../test/early.ts'
import { controlOf } from './control.ts'

const P = '/api/v1'
const MAC = '02:00:00:00:00:01'

/** What is made, in this order. `$name` stands for what an answer before said of itself. */
const MADE: readonly [method: string, path: string, body: object, as?: string][] = [
  ['POST', '/rules', { action: 'drop', source_ip: '198.51.100.1' }, 'rule'],
  ['POST', '/tenant', { name: 'acme' }, 'tenant'],
  ['POST', '/tenant/$tenant/keys', { label: 'one' }],
  ['POST', '/ipam/pools', { name: 'p', subnet: '10.8.0.0/24' }],
  ['POST', '/networks', { name: 'blue', cidr: '10.9.0.0/24', tenant_id: '$tenant' }, 'network'],
  ['POST', '/networks/$network/attach', { mac: MAC }],
  ['POST', '/routed-addresses', { cidr: '8.8.8.0/29', tenant_id: '$tenant' }],
  ['POST', '/dns/zones', { name: 'example.org' }],
  ['POST', '/dns/records', { zone_id: 1, name: 'www', type: 'A', value: '192.0.2.80' }],
  ['POST', '/macbind', { mac: MAC, port: 'tap1' }],
  ['POST', '/vlan', { port: 'tap2', vlan_id: 7 }],
  [
    'POST',
    '/forward',
    { dest_ip: '192.0.2.7', dest_port: 8080, target_ip: '10.9.0.5', target_port: 80 },
    'port_forward',
  ],
  ['POST', '/gateway/snat', { source: '10.9.0.0/24', interface: 'eth9' }],
  ['POST', '/routes', { destination: '10.77.0.0/16', gateway: '192.0.2.1' }],
  ['POST', '/routes/rules', { priority: 1000, from: '10.9.0.0/24', table: 100 }],
  ['POST', '/bandwidth', { id: 'l', target_mac: MAC, rate_bps: 1000000 }],
  ['POST', '/bgp/prefix-lists', { name: 'pl', rules: [] }],
]

t.test('reads of something', async (t) => {
  const stateDir = scratch(t)
  const known = new Map([
    ['name', 'x'],
    ['key', 'uplink'],
    ['zone', 'example.org'],
  ])
  const filled = (text: string) => text.replace(/\$([a-z]+)/g, (_all, name: string) => known.get(name) ?? '?')
  await t.test('made', async (t) => {
    const { call } = await buildAgent(t, { stateDir, config: { uplink: 'eth9' } })
    for (const [method, path, body, as] of MADE) {
      const {
        status,
        text,
        body: told,
      } = await call(method, filled(P + path), JSON.parse(filled(JSON.stringify(body))))
      t.ok(status < 300, `${path}: ${status} ${text.slice(0, 200)}`)
      if (as) known.set(as, String((told[as] as { id: unknown } | undefined)?.id))
    }
  })
  const { agent, open } = await early(t, { stateDir })
  const call = await controlOf(t, agent)
  agent.start().catch(() => {})
  const ID: Readonly<Record<string, string>> = {
    rules: 'rule',
    networks: 'network',
    tenant: 'tenant',
    forward: 'port_forward',
  }
  const waiting = call('GET', `${P}/dns/dnssec/example.org`)
  t.ok(await waits(waiting), 'what a read changes waits')
  let found = 0
  for (const { method, url, config } of agent.routes) {
    const one = [method].flat()[0]
    if ((one !== 'GET' && one !== 'HEAD') || config?.after !== undefined || url.endsWith('/events')) continue
    // Needs what a plane in memory has not: a certificate, an address for the overlay.
    if (url === `${P}/tls/pubkey` || url.startsWith(`${P}/vxlan/networks/`)) continue
    const of = ID[url.slice(P.length + 1).split('/')[0] ?? ''] ?? ''
    const path = url.replace(/:([a-z_]+)/gi, (_all, name: string) => known.get(name === 'id' ? of : name) ?? '1')
    const { status, text } = await call(one, path)
    t.ok(status < 400, `${one} ${path}: ${status} ${text.slice(0, 100)}`)
    if (url.includes(':')) found++
  }
  t.ok(found > 12, `${found} of one thing`)
  open()
  t.equal((await waiting).status, 200)
})

t.test('strangers can be shut out while the plane opens', async (t) => {
  const { agent } = await early(t)
  const call = await controlOf(t, agent)
  agent.start().catch(() => {})
  t.equal((await call('PUT', '/control/v1/services/rest', { on: false })).status, 200)
  t.equal(agent.overrides.read().rest, false)
  t.equal((await call('DELETE', '/control/v1/token')).status, 200)
  t.equal(agent.overrides.read().tokenHash, undefined)
  t.ok(await waits(call('PUT', '/control/v1/config/max_rules', { value: '7' })), 'what the kernel may refuse waits')
})
