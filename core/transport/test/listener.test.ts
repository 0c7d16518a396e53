/** REST over real TLS on loopback, byte by byte: what is served, to whom, and what broken HTTP is told. */
import { EventEmitter, once } from 'node:events'
import { statSync } from 'node:fs'
import type { Server } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import tls from 'node:tls'
import t from 'tap'
import { overSocket } from '../../../test/agent.ts'
import { scratch, TOKEN } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { probe } from '../../../test/rest/areas.ts'
import { openAgent } from '../../../test/rest/ask.ts'
import { snapshot } from '../../../test/rest/snapshot.ts'
import { type Line, type Served, serve, tlsLine } from '../../../test/rest/wire.ts'
import { listenControl } from '../listener.ts'

const AUTH = `Host: node\r\nAuthorization: Bearer ${TOKEN}\r\n`
const HEALTH = `GET /api/v1/health HTTP/1.1\r\n${AUTH}\r\n`
const post = (body: string, headers = 'Content-Type: application/json\r\n', path = '/api/v1/rules') =>
  `POST ${path} HTTP/1.1\r\n${AUTH}${headers}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`

/** The alert or error that ends a handshake. */
async function handshake(port: number, options: tls.ConnectionOptions): Promise<string | undefined> {
  const socket = tls.connect({ host: '127.0.0.1', port, rejectUnauthorized: false, ...options })
  try {
    await once(socket, 'secureConnect')
    return socket.getProtocol() ?? undefined
  } catch (error) {
    return (error as NodeJS.ErrnoException).code
  } finally {
    socket.destroy()
  }
}

async function opened(t: Scope): Promise<Served & Awaited<ReturnType<typeof openAgent>> & { line(): Promise<Line> }> {
  const built = await openAgent(t)
  const served = await serve(t, built.agent)
  return { ...built, ...served, line: () => tlsLine(t, served.port) }
}

t.test('tls-04 TLS 1.2 and 1.3 are served, older versions refused', async (t) => {
  const { port } = await opened(t)
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    t.equal(await handshake(port, { minVersion: version, maxVersion: version }), version)
  }
  for (const version of ['TLSv1', 'TLSv1.1'] as const) {
    const old = { minVersion: version, maxVersion: version, ciphers: 'DEFAULT@SECLEVEL=0' }
    t.equal(await handshake(port, old), 'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION', version)
  }
})

t.test('enable-05 plaintext on the TLS port gets no answer and is closed', async (t) => {
  const { port, line } = await opened(t)
  for (const text of [HEALTH, 'GET / HTTP/1.0\r\n\r\n', '\r\n', 'x'.repeat(10_000), '\x16\x03\x01garbage']) {
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'connect')
    let got = ''
    socket.setEncoding('latin1').on('data', (bytes: string) => {
      got += bytes
    })
    socket.on('error', () => {})
    socket.write(text)
    // Less than a TLS record: the server waits for the rest until there can be none.
    if (text.length < 20) socket.end()
    await once(socket, 'close')
    t.notMatch(got, /HTTP|healthy/, JSON.stringify(text.slice(0, 20)))
  }
  const good = await line()
  good.write(HEALTH)
  t.match(await good.next(), { status: 200 }, 'the others are served on')
})

t.test('conv-05 malformed HTTP is a 400 in our own shape, and the connection ends', async (t) => {
  const { line } = await opened(t)
  const broken = [
    'hello\r\n\r\n',
    'GET /api/v1/health HTTP/9.9\r\n\r\n',
    `GET /api/v1/he alth HTTP/1.1\r\n${AUTH}\r\n`,
    `GET /api/v1/\u0000 HTTP/1.1\r\n${AUTH}\r\n`,
    `GET /api/v1/h\xe9 HTTP/1.1\r\n${AUTH}\r\n`,
    `GET api/v1/health HTTP/1.1\r\n${AUTH}\r\n`,
    `GET /api/v1/health HTTP/1.1\r\n${AUTH}X: \u0001\r\n\r\n`,
    `GET /api/v1/health HTTP/1.1\r\n${AUTH}no colon\r\n\r\n`,
    `GET /api/v1/health HTTP/1.1\r\n${AUTH} folded: x\r\nX : y\r\n\r\n`,
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    `POST /api/v1/rules HTTP/1.1\r\n${AUTH}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}`,
    `POST /api/v1/rules HTTP/1.1\r\n${AUTH}Content-Length: -1\r\n\r\n`,
    `POST /api/v1/rules HTTP/1.1\r\n${AUTH}Content-Length: 2, 2\r\n\r\n{}`,
    `POST /api/v1/rules HTTP/1.1\r\n${AUTH}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
    `POST /api/v1/rules HTTP/1.1\r\n${AUTH}Transfer-Encoding: chunked, identity\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
    `POST /api/v1/rules HTTP/1.1\r\n${AUTH}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n`,
    `GET /api/v1/health HTTP/1.1\nHost: x\n\n`,
  ]
  for (const text of broken) {
    const one = await line()
    one.write(Buffer.from(text, 'latin1'))
    const reply = await one.next()
    const label = JSON.stringify(text.slice(0, 60))
    t.equal(reply?.status, 400, label)
    t.match(reply?.headers, { 'content-type': /^application\/json/, connection: 'close' }, label)
    t.match(reply?.text, /^\{"error":"[^"]+"\}$/, label)
    t.equal(await one.closed(), '', `${label} closed`)
  }
})

t.test('conv-05 a request without Host or with an unmet expectation is told so in JSON', async (t) => {
  const { line } = await opened(t)
  for (const [text, status] of [
    [`GET /api/v1/health HTTP/1.1\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`, 400],
    [`GET /api/v1/health HTTP/1.1\r\n${AUTH}Expect: miracles\r\n\r\n`, 417],
  ] as const) {
    const one = await line()
    one.write(text)
    const reply = await one.next()
    t.equal(reply?.status, status)
    t.match(reply?.text, /^\{"error":"[^"]+"\}$/, `${status}`)
  }
})

t.test('conv-05 oversized headers are a 431 in JSON', async (t) => {
  const { line } = await opened(t)
  const many = Array.from({ length: 1500 }, (_, i) => `X-${i}: ${'v'.repeat(10)}\r\n`).join('')
  for (const head of [`X: ${'a'.repeat(20_000)}\r\n`, many]) {
    for (const start of ['GET /api/v1/health HTTP/1.1', `GET /api/v1/${'a'.repeat(20_000)} HTTP/1.1`]) {
      const one = await line()
      one.write(`${start}\r\n${AUTH}${head}\r\n`)
      t.match(await one.next(), { status: 431, text: '{"error":"header fields too large"}' })
    }
  }
})

t.test(
  'keep-alive: after every refusal the next answer belongs to the next request, or the line is closed',
  async (t) => {
    const { line, call } = await opened(t)
    const smuggled = `GET /api/v1/status HTTP/1.1\r\n${AUTH}X: y\r\n\r\n`
    const refused: [number, string][] = [
      [415, post(smuggled, 'Content-Type: text/plain\r\n')],
      [415, post(smuggled, '')],
      [413, post(smuggled + 'x'.repeat(1_048_577))],
      [400, post(smuggled)],
      [400, post('{"action":1}')],
      [404, post(smuggled, undefined, '/api/v1/nope')],
      [401, post(smuggled).replace(TOKEN, 'wrong')],
      [200, `GET /api/v1/health HTTP/1.1\r\n${AUTH}Content-Length: ${smuggled.length}\r\n\r\n${smuggled}`],
      [404, `DELETE /api/v1/rules/9 HTTP/1.1\r\n${AUTH}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`],
      [415, `POST /api/v1/rules HTTP/1.1\r\n${AUTH}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`],
      [413, chunkedTooLong()],
    ]
    for (const [status, text] of refused) {
      const label = `${status} ${text.slice(0, 30)}`
      const one = await line()
      one.write(text + HEALTH)
      const first = await one.next()
      t.equal(first?.status, status, label)
      const second = await one.next()
      if (first?.headers.connection === 'close') t.equal(second, undefined, `${label}: closed`)
      else t.match(second, { status: 200, text: /"healthy"/ }, `${label}: the next request is answered`)
      one.destroy()
    }
    t.same((await call('GET', '/api/v1/rules')).body, { rules: [] })
  },
)

t.test('a call that is carried out is never answered by the error of what follows it', async (t) => {
  const calls = new EventEmitter()
  const answer = async () => {
    calls.emit('entered')
    await once(calls, 'finish')
    return { status: 'updated', id: 'probe' }
  }
  const { plugin } = probe('probe', ['/slow'], [{ method: 'POST', path: '/slow', answer }])
  const { agent } = await openAgent(t, { extraAreas: [plugin] })
  const { port, server } = await serve(t, agent)
  const one = await tlsLine(t, port)
  one.write(HEALTH)
  await one.next()
  const broken = once(server(), 'clientError')
  const entered = once(calls, 'entered')
  one.write(`${post('{}', undefined, '/api/v1/slow')}garbage\r\n\r\n`)
  await Promise.all([entered, broken])
  calls.emit('finish')
  const first = await one.next()
  t.ok(first === undefined || first.status === 200, `the first answer is ${first?.status}`)
})

t.test('conv-17 a truncated body changes nothing', async (t) => {
  const { line, call, agent, plane } = await opened(t)
  const before = snapshot({ agent, plane })
  const whole = '{"action":"drop"}'
  for (const head of [`Content-Length: ${whole.length + 1}`, 'Transfer-Encoding: chunked']) {
    for (const body of ['', '{', whole, head.startsWith('T') ? `11\r\n${whole}\r\n` : whole]) {
      for (const leave of ['end', 'destroy'] as const) {
        const one = await line()
        one.write(`POST /api/v1/rules HTTP/1.1\r\n${AUTH}Content-Type: application/json\r\n${head}\r\n\r\n${body}`)
        one[leave]()
        if (leave === 'end') t.match(await one.next(), { status: 400, text: /^\{"error":/ }, `${head} ${body}`)
        await one.closed()
      }
    }
  }
  t.same((await call('GET', '/api/v1/rules')).body, { rules: [] })
  t.same(snapshot({ agent, plane }), before)
})

t.test('slow headers and slow bodies end in a 408 in JSON', async (t) => {
  const { line, server, call } = await opened(t)
  const warm = await line()
  warm.write(HEALTH)
  await warm.next()
  const limits = server()
  t.ok(limits.headersTimeout > 0 && limits.headersTimeout <= 15_000, `headers within ${limits.headersTimeout} ms`)
  t.ok(limits.requestTimeout > 0 && limits.requestTimeout <= 30_000, `request within ${limits.requestTimeout} ms`)
  limits.headersTimeout = 1
  limits.requestTimeout = 2
  const whole = post('{"action":"drop"}')
  for (const part of ['GET /api', `GET /api/v1/health HTTP/1.1\r\n${AUTH}`, whole.slice(0, -1)]) {
    const one = await line()
    one.write(part)
    const answer = one.next()
    const looking = setInterval(expire, 5, limits)
    t.match(await answer, { status: 408, text: '{"error":"the request took too long"}' }, part.slice(0, 30))
    clearInterval(looking)
    await one.closed()
  }
  t.same((await call('GET', '/api/v1/rules')).body, { rules: [] })
})

t.test(
  'enable-24 enable-26 the control socket is root-only, needs no token, knows no allow-list, block or rate',
  async (t) => {
    const { plugin, hits } = probe('probe', ['/probe'], [{ method: 'GET', path: '/probe' }])
    const { agent } = await openAgent(t, {
      extraAreas: [plugin],
      config: { api_allowed_ips: '192.0.2.1', api_rate_burst: '1', api_rate_limit: '1', api_auth_fail_limit: '1' },
    })
    const path = join(scratch(t), 'control.sock')
    const control = await listenControl(agent.app.routing.bind(agent.app), path)
    t.teardown(() => control.close(0))
    t.equal(statSync(path).mode & 0o777, 0o600)
    const call = overSocket(path)
    for (let i = 0; i < 5; i++)
      t.equal((await call('GET', '/api/v1/probe', undefined, { authorization: 'Bearer wrong' })).status, 200)
    t.equal((await call('GET', '/control/v1/token')).status, 200)
    t.same((await call('GET', '/api/v1/nope')).status, 404)
    t.same(new Set(hits.map(({ caller }) => caller)), new Set(['cli']))
  },
)

/** Lets the server look for expired connections now, which it does by a timer twice a minute. */
function expire(server: Server): void {
  const timer = Object.getOwnPropertySymbols(server).find(({ description }) =>
    description?.endsWith('CheckingInterval'),
  )
  // The timer is kept under a symbol of node:http, and a timer keeps its function.
  const { _onTimeout } = (server as unknown as Record<symbol, { _onTimeout: () => void }>)[timer ?? Symbol()] ?? {}
  if (_onTimeout === undefined) throw new Error('this version of node keeps its timer elsewhere')
  _onTimeout()
}

/** 1 MiB and a byte in chunks of 64 KiB. */
function chunkedTooLong(): string {
  const chunk = `10000\r\n${' '.repeat(65_536)}\r\n`
  return `POST /api/v1/rules HTTP/1.1\r\n${AUTH}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${chunk.repeat(16)}1\r\n \r\n0\r\n\r\n`
}
