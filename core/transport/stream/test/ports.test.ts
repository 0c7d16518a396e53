import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import t from 'tap'
import { openServices } from '../../../services.ts'
import { grpcService } from '../../grpc.ts'
import { listenRest } from '../../listener.ts'
import { EVENTS_PATH, eventService } from '../../stream.ts'
import { BEARER, healthClient, refusal, rig, serveEvents, serveHealth } from './rig.ts'

t.test('auth-27 failures on 7071 and 7072 count toward the same block, which holds on all ports', async (t) => {
  const node = await rig(t, { config: { api_auth_fail_limit: '4' } })
  const events = await serveEvents(t, node)
  const health = await healthClient(t, await serveHealth(t, node), node)
  const wrong = { authorization: 'Bearer wrong' }
  for (let n = 0; n < 6; n++) await refusal(events, node, EVENTS_PATH)
  t.same(node.agent.gates.lockout.blocks(), [], 'nothing presented is nothing failed')
  for (let n = 0; n < 2; n++) {
    t.match(await refusal(events, node, EVENTS_PATH, wrong), { status: 401 })
    await t.rejects(health.check('', wrong.authorization), { code: 16 })
  }
  t.match(node.agent.gates.lockout.blocks(), [{ address: '127.0.0.1', failures: 4 }])
  const answer = await refusal(events, node, EVENTS_PATH, { authorization: BEARER })
  t.match(answer, { status: 429, body: { error: 'too many failed authentication attempts' } })
  t.ok(Number(answer.headers['retry-after']) > 800)
  await t.rejects(health.check(''), { code: 8, details: 'too many failed authentication attempts' })
  const onRest = await node.call('GET', '/api/v1/rules')
  t.equal(onRest.status, 429)
})

t.test('tls-01 enable-06 all three ports speak TLS only, with one certificate, also a replaced one', async (t) => {
  const node = await rig(t)
  const { agent, certificate } = node
  const rest = {
    name: 'rest' as const,
    listen: ({ cert, key }: { cert: string; key: string }) =>
      listenRest(agent.app.routing.bind(agent.app), { cert, key, address: '127.0.0.1', port: 0 }),
  }
  const conditions = {
    tokenAtStart: true,
    tokenStored: () => true,
    switchedOn: () => true,
    closed: () => undefined,
    certificate,
  }
  const services = openServices([rest, grpcService(agent), eventService(agent)], conditions, agent.app.log)
  t.teardown(() => services.close(100))
  await services.follow()
  const ports = services.status().map(({ listening = '' }) => Number(listening.split(':')[1]))
  t.equal(ports.length, 3)

  const presented = async (port: number) => {
    const socket = connectTls({ host: '127.0.0.1', port, rejectUnauthorized: false, ALPNProtocols: ['h2', 'http/1.1'] })
    await once(socket, 'secureConnect')
    const { fingerprint256 } = socket.getPeerCertificate()
    socket.destroy()
    return fingerprint256
  }
  for (const port of ports) t.equal(await presented(port), certificate.fingerprint256)
  const next = await node.newCertificate()
  services.useCertificate(next)
  for (const port of ports) t.equal(await presented(port), next.fingerprint256)

  const preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
  const upgrade = `GET ${EVENTS_PATH} HTTP/1.1\r\nHost: a\r\nAuthorization: ${BEARER}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`
  for (const port of ports) {
    for (const hello of [preface, upgrade]) {
      const answer = await answerTo(connect(port, '127.0.0.1'), hello)
      t.ok(answer === '' || answer.charCodeAt(0) === TLS_ALERT, `port ${port} ended it`)
    }
  }
})

/** RFC 8446 §5.1: the content type of a record that is an alert. */
const TLS_ALERT = 21

/** All that comes back on a plain connection, which the other side has to end. */
async function answerTo(socket: Socket, text: string): Promise<string> {
  let answer = ''
  socket.on('data', (chunk) => {
    answer += chunk.toString('latin1')
  })
  socket.on('error', () => {})
  socket.write(text)
  await once(socket, 'close')
  return answer
}
