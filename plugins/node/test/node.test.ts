/** The node's own routes: health, status, index, public key. */
import { createPublicKey, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { hostname } from 'node:os'
import tls from 'node:tls'
import t from 'tap'
import { CLUSTER_ROUTES, GATED_ROUTES, probe, TENANT_ROUTES } from '../../../test/rest/areas.ts'
import { ask, openAgent } from '../../../test/rest/ask.ts'
import { serve, tlsLine } from '../../../test/rest/wire.ts'
import { duration } from '../uptime.ts'

const P = '/api/v1'

interface Endpoint {
  method: string
  path: string
  area: string
  summary: string
  auth: string
  feature: string | null
  success: number
}

t.test('node-01 node-02 health is a word and a duration, with or without a credential', async (t) => {
  const clock = { ms: Date.UTC(2030, 0, 1) }
  const { agent } = await openAgent(t, { now: () => new Date(clock.ms) })
  clock.ms += 263_525_999
  for (const token of [null, 'wrong', undefined]) {
    const { status, text, headers } = await ask(agent, 'GET', `${P}/health`, token === undefined ? {} : { token })
    t.equal(status, 200)
    t.equal(text, '{"status":"healthy","uptime":"73h12m5s"}')
    const told = JSON.stringify(headers)
    for (const secret of [agent.version, hostname(), process.version, 'fastify', 'node/', 'x-powered-by', '"server"']) {
      t.notOk(told.toLowerCase().includes(secret.toLowerCase()), `no header tells ${secret}`)
    }
  }
  agent.licence.reload()
  clock.ms = 0
  t.match((await ask(agent, 'GET', `${P}/health`)).body, { uptime: '0s' }, 'a clock set back makes no negative time')
})

t.test('node-01 D31 durations as Go writes them', async (t) => {
  const table: [number, string][] = [
    [0, '0s'],
    [999, '0s'],
    [59_999, '59s'],
    [60_000, '1m0s'],
    [3_599_999, '59m59s'],
    [3_600_000, '1h0m0s'],
    [263_525_000, '73h12m5s'],
    [-5, '0s'],
  ]
  for (const [ms, text] of table) t.equal(duration(ms), text)
})

t.test('node-03 ver-01 status: state, version, uptime, acceleration', async (t) => {
  const { agent, plane } = await openAgent(t)
  const { status, body } = await ask(agent, 'GET', `${P}/status`)
  t.equal(status, 200)
  t.same(Object.keys(body).sort(), ['acceleration', 'status', 'uptime', 'version'])
  t.match(body, { status: 'running', version: /^\d+\.\d+\.\d+/, uptime: /^(\d+h)?(\d+m)?\d+s$/ })
  const acceleration = body.acceleration as Record<string, unknown>
  t.same(Object.keys(acceleration).sort(), ['detail', 'mode', 'summary'])
  t.match(acceleration.mode, /^(xdp-native|xdp-generic|tc|none)$/)
  t.match(acceleration.summary, /^[^\n]+$/, 'one line')
  t.type(acceleration.detail, 'string')
  plane.check = () => [{ name: 'nft', available: false, detail: 'nf_tables is missing' }]
  t.match(
    (await ask(agent, 'GET', `${P}/status`)).body.acceleration,
    { detail: /nf_tables is missing/ },
    'off, and why',
  )
  const facility = (name: string, available: boolean, detail: string) => ({ name, available, detail })
  const summary = async () =>
    ((await ask(agent, 'GET', `${P}/status`)).body.acceleration as { summary: string }).summary
  const nft = facility('nft', true, 'nftables')
  plane.check = () => [nft, facility('classifier', true, 'eBPF classifier, 12 rules in 3 tables')]
  t.match(await summary(), /firewall: eBPF classifier, 12 rules in 3 tables$/)
  plane.check = () => [nft, facility('classifier', false, 'Linux 6.4 is needed')]
  t.match(await summary(), /firewall: nft, rule by rule \(Linux 6\.4 is needed\)$/)
  const netlink = facility('netlink', true, 'links')
  plane.check = () => [nft, netlink, facility('balancer', true, 'eBPF programs, virtual addresses: 3')]
  t.match(await summary(), /load balancer: eBPF programs, virtual addresses: 3;/)
  plane.check = () => [nft, netlink, facility('balancer', false, 'needs Linux 6.6')]
  t.match(await summary(), /load balancer: nft, by its connection tracking \(needs Linux 6\.6\);/)
  plane.check = () => [facility('nft', false, 'none'), facility('classifier', false, 'needs nft')]
  t.match(await summary(), /firewall: off$|^no data plane$/)
})

t.test('node-03 D32 status is degraded while the kernel does not hold what is stored', async (t) => {
  const { fakePlane } = await import('../../../dataplane/plane.fake.ts')
  const plane = fakePlane()
  plane.observe = async () => {
    throw new Error('no netlink')
  }
  const { agent } = await openAgent(t, { plane })
  t.match((await ask(agent, 'GET', `${P}/status`)).body, { status: 'degraded' })
})

t.test('node-04 node-05 D33 the index lists what is served, no more and no less', async (t) => {
  const area = probe('rest', ['/rest'], [...TENANT_ROUTES, ...GATED_ROUTES, ...CLUSTER_ROUTES])
  const { agent } = await openAgent(t, { extraAreas: [area.plugin] })
  const { status, body } = await ask(agent, 'GET', `${P}/docs`, { token: null })
  t.equal(status, 200)
  t.same(Object.keys(body).sort(), ['base', 'count', 'endpoints', 'name', 'version'])
  t.match(body, { name: 'stratum-node', version: agent.version, base: P })
  const endpoints = body.endpoints as Endpoint[]
  t.equal(body.count, endpoints.length)

  const named = (method: string, url: string) => `${method} ${url.replace(/:([a-z]+)/g, '{$1}')}`
  const registered = agent.routes
    .filter(({ url }) => url.startsWith(`${P}/`))
    .flatMap(({ method, url }) => [method].flat().map((one) => named(one, url)))
    .filter((line) => !line.startsWith('HEAD '))
  t.same(endpoints.map(({ method, path }) => `${method} ${path}`).sort(), registered.sort())
  t.notOk(JSON.stringify(body).includes('/control'), 'the control socket is not for strangers')

  for (const { method, path, auth, feature, success, summary, area: owner } of endpoints) {
    const label = `${method} ${path}`
    t.ok(summary.length > 0 && owner.length > 0, `${label}: ${owner}: ${summary}`)
    t.ok(success === 200 || success === 201, label)
    const url = path.replace(/\{[a-z]+\}/g, '1')
    const stranger = await ask(agent, method, url, { token: null, json: {} })
    t.equal(stranger.status === 401, auth !== 'none', `${label} says ${auth}`)
    const answer = await ask(agent, method, url, { json: {} })
    t.notOk(
      answer.body.error === 'no such path' || [401, 403, 405].includes(answer.status),
      `${label}: ${answer.status}`,
    )
    t.equal(feature !== null, gated(path, method), `${label} needs ${feature}`)
  }
  const by = (method: string, path: string) => endpoints.find((one) => one.method === method && one.path === P + path)
  t.match(by('GET', '/tenant/{id}/quota'), { auth: 'tenant' })
  t.match(by('PUT', '/tenant/{id}/quota'), { auth: 'token' })
  t.match(by('POST', '/rules'), { success: 201, area: 'firewall', feature: null })
})

/** The specification's table, spelt out once more. */
function gated(path: string, method: string): boolean {
  if (/\/cluster\/(status|join-codes)$/.test(path) && method === 'GET') return false
  if (/\/cluster\/(leave|join-codes\/\{id\}|members\/\{id\})$/.test(path)) return false
  return /^\/api\/v1\/(networks|routed-addresses|dns|dhcp|vxlan|lb|bgp|gateway|bandwidth|cluster)(\/|$)/.test(path)
}

t.test('tls-02 tls-03 the public key is the one of the certificate that is presented', async (t) => {
  const { agent } = await openAgent(t)
  const { port } = await serve(t, agent)
  const socket = tls.connect({ host: '127.0.0.1', port, rejectUnauthorized: false })
  await once(socket, 'secureConnect')
  const presented = new X509Certificate(socket.getPeerCertificate().raw).publicKey
  socket.destroy()
  const line = await tlsLine(t, port)
  line.write('GET /api/v1/tls/pubkey HTTP/1.1\r\nHost: node\r\nAccept-Encoding: gzip\r\n\r\n')
  const reply = await line.next()
  t.match(reply, { status: 200, headers: { 'content-type': /^text\/plain/ } })
  t.equal(reply?.headers['content-encoding'], undefined)
  t.match(reply?.text, /^-----BEGIN PUBLIC KEY-----\n[A-Za-z0-9+/=\n]+-----END PUBLIC KEY-----\n$/)
  const told = createPublicKey(reply?.text ?? '').export({ type: 'spki', format: 'der' })
  t.same(told, presented.export({ type: 'spki', format: 'der' }))
})

t.test('tls-02 without a certificate there is no key to tell', async (t) => {
  const { agent } = await openAgent(t)
  const { status, headers, body } = await ask(agent, 'GET', `${P}/tls/pubkey`, { token: null })
  t.equal(status, 404)
  t.match(headers['content-type'], /^application\/json/)
  t.type(body.error, 'string')
})
