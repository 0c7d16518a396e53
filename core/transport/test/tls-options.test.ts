/** What the three ports agree to in a handshake, with the first certificate and with the one that replaced it. */
import { once } from 'node:events'
import tls from 'node:tls'
import t from 'tap'
import type { Scope } from '../../../test/netns.ts'
import type { SecureListener } from '../../services.ts'
import { listenRest } from '../listener.ts'
import { type Rig, rig, serveEvents, serveHealth } from '../stream/test/rig.ts'

interface Port {
  name: string
  listener: SecureListener
}

async function allPorts(scope: Scope, node: Rig): Promise<Port[]> {
  const { agent, certificate } = node
  const rest = await listenRest(agent.app.routing.bind(agent.app), { ...certificate, address: '127.0.0.1', port: 0 })
  scope.teardown(() => rest.close(100))
  return [
    { name: 'REST', listener: rest },
    { name: 'gRPC', listener: await serveHealth(scope, node) },
    { name: 'events', listener: await serveEvents(scope, node) },
  ]
}

function dial({ listener }: Port, options: tls.ConnectionOptions): tls.TLSSocket {
  const [host = '', port = ''] = listener.where.split(':')
  const ALPNProtocols = ['h2', 'http/1.1']
  return tls.connect({ host, port: Number(port), rejectUnauthorized: false, ALPNProtocols, ...options })
}

/** What was agreed on, or the error that ended the handshake. */
async function agreed(port: Port, options: tls.ConnectionOptions): Promise<string> {
  const socket = dial(port, options)
  try {
    await once(socket, 'secureConnect')
    return socket.getCipher().name
  } catch (error) {
    // Errors of node:tls carry a code.
    const { code = String(error) } = error as NodeJS.ErrnoException
    return SAME[code] ?? code
  } finally {
    socket.destroy()
  }
}

/** The agent's alert 40; OpenSSL 3.5 of Node 24 names it otherwise. */
const NO_COMMON = 'ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE'
const SAME: Readonly<Record<string, string>> = { 'ERR_SSL_SSL/TLS_ALERT_HANDSHAKE_FAILURE': NO_COMMON }
const old = { maxVersion: 'TLSv1.2' as const }

/** What a client offers, and what comes of it. */
const OFFERS: [string, tls.ConnectionOptions, string][] = [
  ['everything', {}, 'TLS_AES_256_GCM_SHA384'],
  ['everything of TLS 1.2', old, 'ECDHE-ECDSA-AES256-GCM-SHA384'],
  [
    'the weaker one first',
    { ...old, ciphers: 'ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-CHACHA20-POLY1305' },
    'ECDHE-ECDSA-CHACHA20-POLY1305',
  ],
  ['CBC only', { ...old, ciphers: 'ECDHE-ECDSA-AES256-SHA384:ECDHE-ECDSA-AES128-SHA' }, NO_COMMON],
  // OpenSSL 3.5 would not even offer it, and the agent not be asked.
  ['CCM with a short tag only', { ...old, ciphers: 'ECDHE-ECDSA-AES256-CCM8:@SECLEVEL=0' }, NO_COMMON],
  ['X25519', { ecdhCurve: 'X25519' }, 'TLS_AES_256_GCM_SHA384'],
  ['P-256', { ecdhCurve: 'P-256' }, 'TLS_AES_256_GCM_SHA384'],
  ['P-384', { ecdhCurve: 'P-384' }, 'TLS_AES_256_GCM_SHA384'],
  ['a group that costs the agent 0.1 s', { ecdhCurve: 'ffdhe8192' }, NO_COMMON],
  ['a group that costs the agent 4 ms', { ecdhCurve: 'ffdhe2048' }, NO_COMMON],
]

t.test('tls-01 tls-04 the three ports agree to the same, before and after the certificate is replaced', async (t) => {
  const node = await rig(t)
  const ports = await allPorts(t, node)
  for (const time of ['before', 'after']) {
    for (const port of ports) {
      for (const [what, offer, outcome] of OFFERS) t.equal(await agreed(port, offer), outcome, `${port.name}: ${what}`)
    }
    const next = await node.newCertificate()
    if (time === 'before') for (const { listener } of ports) listener.setCertificate(next)
  }
})

t.test('no session is resumed, so no ticket key is older than a connection', async (t) => {
  for (const port of await allPorts(t, await rig(t))) {
    for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
      const first = dial(port, { maxVersion })
      const [session] = (await once(first, 'session')) as [Buffer]
      first.destroy()
      const second = dial(port, { maxVersion, session })
      await once(second, 'secureConnect')
      t.notOk(second.isSessionReused(), `${port.name}: ${maxVersion}`)
      second.destroy()
    }
  }
})

t.test('a client cannot make the agent negotiate anew', async (t) => {
  for (const port of await allPorts(t, await rig(t))) {
    const socket = dial(port, old)
    await once(socket, 'secureConnect')
    const refused = once(socket, 'error')
    socket.renegotiate({}, () => {})
    t.match(await refused, [{ code: 'ERR_SSL_NO_RENEGOTIATION' }], port.name)
    socket.destroy()
  }
})

t.test('gRPC ends a connection that has not agreed on HTTP/2', async (t) => {
  const node = await rig(t)
  const port = { name: 'gRPC', listener: await serveHealth(t, node) }
  t.equal(await agreed(port, { ALPNProtocols: ['http/1.1'] }), 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL')
  const silent = dial(port, { ALPNProtocols: [] })
  await once(silent, 'secureConnect')
  silent.resume()
  await once(silent, 'close')
})
