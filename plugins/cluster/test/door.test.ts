/** The door of a member: who comes in by it, and with what. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { connect as connectTls } from 'node:tls'
import t from 'tap'
import { encodePassed } from '../../../core/transport/elsewhere.ts'
import { listenRest } from '../../../core/transport/listener.ts'
import { TOKEN } from '../../../test/build.ts'
import { eventually } from '../../../test/cluster.ts'
import { notAccepted } from '../codes.ts'
import { call, knock, mesh } from './mesh.ts'

const P = '/api/v1'
const OPERATOR = encodePassed({ address: '192.0.2.1', caller: { kind: 'operator', label: 'x' }, requestId: 'r-1' })

t.test('D102 what stands in the body of a call is never read as another call', async (t) => {
  const { a, b, port, own } = await mesh(t)
  const { certificate: cert, key } = own
  const api = await listenRest((request, response) => a.agent.app.routing(request, response), {
    ...{ address: '127.0.0.1', port: 0, cert, key },
  })
  t.teardown(() => api.close(0))
  const { serve } = b.agent.elsewhere
  const arrived: string[] = []
  b.agent.elsewhere.serve = (request, ...rest) => {
    arrived.push(`${request.method} ${request.url}`)
    serve(request, ...rest)
  }
  const rule = '{"action":"drop","source_ip":"192.0.2.1"}'
  const second = `POST /pass${P}/rules HTTP/1.1\r\nhost: n2\r\nx-stratum-caller: ${OPERATOR}\r\ncontent-type: application/json\r\ncontent-length: ${rule.length}\r\n\r\n${rule}`
  const framed = [
    `transfer-encoding: chunked\r\nconnection: close\r\n\r\n${second.length.toString(16)}\r\n${second}\r\n0\r\n\r\n`,
    `transfer-encoding: chunked\r\nconnection: close, transfer-encoding\r\n\r\n${second.length.toString(16)}\r\n${second}\r\n0\r\n\r\n`,
    `content-length: ${second.length}\r\nconnection: close, content-length\r\n\r\n${second}`,
  ]
  const send = async (head: string, rest: string) => {
    const socket = connectTls({
      port: Number(api.where.split(':').at(-1)),
      host: '127.0.0.1',
      rejectUnauthorized: false,
    })
    socket.write(`${head} HTTP/1.1\r\nhost: n1\r\nx-node: n2\r\nauthorization: Bearer ${TOKEN}\r\n${rest}`)
    return Number((await text(socket)).split(' ')[1])
  }
  for (const method of ['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND', 'PUT', 'PATCH']) {
    for (const rest of framed) {
      const status = await send(`${method} ${P}/health`, rest)
      t.ok(status >= 200 && status < 500, `${method} is answered: ${status}`)
      // Over the same connection to the member, so it comes after whatever was left there.
      t.equal(await send(`GET ${P}/rules`, 'connection: close\r\n\r\n'), 200)
    }
  }
  t.same(
    arrived.filter((call) => call.startsWith('POST')),
    [],
  )
  t.same([...new Set(arrived.map((call) => call.split(' ')[0]))].sort(), ['DELETE', 'GET', 'HEAD', 'PATCH', 'PUT'])
  t.equal((await knock(port, `/pass${P}/rules`, { trust: own })).status, 403)
  t.same((await call(b, 'GET', `${P}/rules`)).body.rules, [])
})

t.test('the door passes calls for members alone', async (t) => {
  const { b, port, material, own: trust } = await mesh(t)
  const headers = { 'x-stratum-caller': OPERATOR }
  const refused = { error: 'forbidden: for members of the cluster only' }
  const strangers = {
    'no certificate': {},
    'of another authority': await material('n1', true),
    'of a node that is no member any more': await material('n3'),
    'of a member, and not of its key': await material('n1'),
  }
  for (const [who, trust] of Object.entries(strangers)) {
    for (const path of [`/pass${P}/rules`, '/withdraw', '/entry', '/', `${P}/rules`, '/join/x']) {
      const { status, text } = await knock(port, path, { trust, headers })
      t.same([status, JSON.parse(text)], [403, refused], `${who}: ${path}`)
    }
  }
  for (const [who, trust] of Object.entries(strangers)) {
    t.equal((await knock(port, '/farewell', { method: 'POST', trust })).status, 403, `${who} dismisses nobody`)
  }
  const farewell = await knock(port, '/farewell', { method: 'POST', trust })
  t.same([farewell.status, JSON.parse(farewell.text)], [200, { dismissed: true }], 'a member does')
  for (const bad of ['', 'x', 'e30', Buffer.from('{"address":"x"}').toString('base64url')]) {
    t.equal((await knock(port, `/pass${P}/rules`, { trust, headers: { 'x-stratum-caller': bad } })).status, 403, bad)
  }
  t.equal(
    (await knock(port, '/pass/control/v1/config', { trust, headers })).status,
    404,
    'the control socket is not to be had',
  )
  t.equal((await knock(port, `${P}/rules`, { trust, headers })).status, 404)
  // On the API itself the header says nothing.
  t.equal((await call(b, 'GET', `${P}/rules`, { headers: { ...headers, authorization: '' } })).status, 401)
})

t.test('who is no member may do nothing but present a code, and not too much of it', async (t) => {
  const asked: unknown[] = []
  const join = async (body: unknown) => {
    asked.push(body)
    if ((body as { secret: string }).secret !== 'right') throw notAccepted()
    return { admitted: true }
  }
  const { b, port } = await mesh(t, { b: { config: { api_auth_fail_limit: '2' } }, join })
  const present = (body: string) => knock(port, '/join', { method: 'POST', body })
  t.same(await present('{"secret":"right"}').then(({ status, text }) => [status, text]), [200, '{"admitted":true}'])
  t.equal((await present('x')).status, 400)
  t.equal((await present(JSON.stringify({ secret: 'x'.repeat(20_000) }))).status, 413)
  const aborted = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false })
  aborted.write('POST /join HTTP/1.1\r\nhost: n2\r\ncontent-length: 9\r\n\r\nx')
  await once(aborted, 'secureConnect')
  aborted.end()
  await once(aborted.resume(), 'close')
  t.equal(asked.length, 1)
  for (const status of [403, 403, 429]) {
    const got = await present('{"secret":"wrong"}')
    t.equal(got.status, status)
    if (status === 429) t.match(got.headers['retry-after'], /^[0-9]+$/)
  }
  t.equal((await present('{"secret":"right"}')).status, 429)
  t.match(b.agent.gates.lockout.blocks(), [{ address: '127.0.0.1' }])
})

t.test('connections to the door are bounded as those to the API', async (t) => {
  const { port, pass } = await mesh(t, { b: { config: { max_connections_per_ip: '2' } } })
  const from = (localAddress: string) => connect({ port, host: '127.0.0.1', localAddress })
  const open = ['127.0.0.8', '127.0.0.9', ...Array.from({ length: 4 }, () => '127.0.0.1')].map(from)
  await Promise.all(open.map((socket) => once(socket, 'connect')))
  const [third] = await once(from('127.0.0.9'), 'error')
  t.equal(third.code, 'ECONNRESET', 'all that are no members count as one')
  t.equal((await pass('GET', `${P}/rules`)).status, 200, 'a member speaks for many')
  for (const socket of open) socket.destroy()
  await eventually('there is room again', async () => (await pass('GET', `${P}/rules`)).status === 200)
})

t.test('D102 nothing is told to whoever shows the name of a member and not its key', async (t) => {
  const { b, pass, otherKey } = await mesh(t)
  t.equal((await pass('GET', `${P}/rules`)).status, 200)
  otherKey()
  const refused = await pass('POST', `${P}/rules`, { body: '{"action":"drop","source_ip":"192.0.2.1"}' })
  t.equal(refused.status, 503)
  t.same((await call(b, 'GET', `${P}/rules`)).body.rules, [])
})
