import { once } from 'node:events'
import { connect } from 'node:tls'
import type { ServiceError } from '@grpc/grpc-js'
import t from 'tap'
import { healthClient, rig, serveHealth } from '../stream/test/rig.ts'

/** Codes of gRPC (doc/statuscodes.md). */
const CODE = {
  NOT_FOUND: 5,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  UNIMPLEMENTED: 12,
  UNAVAILABLE: 14,
  UNAUTHENTICATED: 16,
}

const codeOf = (call: Promise<unknown>): Promise<number | undefined> =>
  call.then(
    () => undefined,
    (error: ServiceError) => error.code,
  )

t.test('grpc-01 auth-06 the node token asks for the node, for each area, and for all of them', async (t) => {
  const node = await rig(t)
  const client = await healthClient(t, await serveHealth(t, node), node)
  t.same(await client.check(''), { status: 'SERVING' })
  t.same(await client.check('firewall'), { status: 'SERVING' })
  node.agent.states.turnOff('firewall', 'no kernel support')
  t.same(await client.check('firewall'), { status: 'NOT_SERVING' })
  t.same(await client.list(), {
    statuses: {
      '': { status: 'SERVING' },
      node: { status: 'SERVING' },
      firewall: { status: 'NOT_SERVING' },
      dataplane: { status: 'SERVING' },
      storage: { status: 'SERVING' },
    },
  })
})

t.test('grpc-01 the node does not serve while the kernel does not hold what is stored', async (t) => {
  const node = await rig(t)
  const client = await healthClient(t, await serveHealth(t, node), node)
  const { agent } = node
  let trouble: string | undefined = 'the kernel does not hold what is stored'
  agent.ailing = (name) => (name === '' ? trouble : undefined)
  t.same(await client.check(''), { status: 'NOT_SERVING' })
  trouble = undefined
  t.same(await client.check(''), { status: 'SERVING' })
})

t.test('grpc-01 a frozen licence stays SERVING', async (t) => {
  const node = await rig(t, { licensed: false })
  const client = await healthClient(t, await serveHealth(t, node), node)
  t.equal((await node.call('POST', '/api/v1/rules', { action: 'drop' })).status, 403)
  t.same(await client.check(''), { status: 'SERVING' })
  t.same(await client.check('firewall'), { status: 'SERVING' })
})

t.test('grpc-02 auth-09 anything but the node token is UNAUTHENTICATED, on every method', async (t) => {
  const node = await rig(t, { config: { api_auth_fail_limit: '1000' } })
  const client = await healthClient(t, await serveHealth(t, node), node)
  const key = await node.operatorKey()
  const onRest = await node.call('GET', '/api/v1/rules', undefined, { authorization: `Bearer ${key}` })
  t.equal(onRest.status, 200, 'the key is good on REST')
  for (const authorization of ['', 'Bearer wrong', 'Basic eDp5', `Bearer ${key}`, `Bearer tk_1_${'x'.repeat(32)}`]) {
    t.equal(await codeOf(client.check('', authorization)), CODE.UNAUTHENTICATED, authorization)
    t.equal(await codeOf(client.list(authorization)), CODE.UNAUTHENTICATED)
    const [error] = (await once(client.watch('', authorization), 'error')) as [ServiceError]
    t.equal(error.code, CODE.UNAUTHENTICATED)
  }
})

t.test('grpc-03 an unknown name is NOT_FOUND on Check and SERVICE_UNKNOWN on Watch', async (t) => {
  const node = await rig(t)
  const client = await healthClient(t, await serveHealth(t, node), node)
  for (const name of ['nothing', 'Firewall', '\ud83d\ude00'.repeat(100), '__proto__']) {
    t.equal(await codeOf(client.check(name)), CODE.NOT_FOUND)
  }
  const watch = client.watch('nothing')
  watch.on('error', () => {})
  t.same(await once(watch, 'data'), [{ status: 'SERVICE_UNKNOWN' }])
  watch.cancel()
})

t.test('grpc-01 Watch tells the state now and every change of it, and ends with the agent', async (t) => {
  const node = await rig(t)
  const listener = await serveHealth(t, node, { pollMs: 10 })
  const client = await healthClient(t, listener, node)
  const watch = client.watch('firewall')
  t.same(await once(watch, 'data'), [{ status: 'SERVING' }])
  node.agent.states.turnOff('firewall', 'gone')
  t.same(await once(watch, 'data'), [{ status: 'NOT_SERVING' }])
  const cancelled = client.watch('')
  await once(cancelled, 'data')
  cancelled.on('error', () => {})
  cancelled.cancel()
  const end = once(watch, 'error') as Promise<[ServiceError]>
  await listener.close(5000)
  t.equal((await end)[0].code, CODE.UNAVAILABLE)
})

t.test('grpc-02 the allow-list answers PERMISSION_DENIED, also to a watch that stands', async (t) => {
  const node = await rig(t, { config: { api_allowed_ips: '127.0.0.1' } })
  const { agent } = node
  const client = await healthClient(t, await serveHealth(t, node, { pollMs: 10 }), node)
  const watch = client.watch('firewall')
  await once(watch, 'data')
  agent.states.turnOff('firewall', 'gone')
  t.same(await once(watch, 'data'), [{ status: 'NOT_SERVING' }], 'looked at again, and still admitted')
  const end = once(watch, 'error') as Promise<[ServiceError]>
  agent.overrides.change(({ config }) => {
    config.api_allowed_ips = '192.0.2.0/24'
  })
  agent.config.reload()
  t.equal((await end)[0].code, CODE.PERMISSION_DENIED)
  t.equal(await codeOf(client.check('')), CODE.PERMISSION_DENIED)
  t.equal(await codeOf(client.check('', '')), CODE.PERMISSION_DENIED, 'before the credential')
})

t.test('grpc-02 a call costs one of the rate, a refused one nothing', async (t) => {
  const node = await rig(t, { config: { api_rate_burst: '3', api_rate_limit: '1' } })
  const client = await healthClient(t, await serveHealth(t, node), node)
  await client.check('')
  await client.check('')
  await client.list()
  t.equal(await codeOf(client.check('')), CODE.RESOURCE_EXHAUSTED)
  t.equal(node.agent.gates.rate.take('127.0.0.1')?.status, 429, 'the bucket is the one of REST')
})

t.test('grpc-01 there is no reflection, and a message that is no name is refused', async (t) => {
  const node = await rig(t)
  const client = await healthClient(t, await serveHealth(t, node), node)
  const reflection = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo'
  t.equal(await codeOf(client.raw(reflection, Buffer.alloc(0))), CODE.UNIMPLEMENTED)
  const check = '/grpc.health.v1.Health/Check'
  t.equal(await codeOf(client.raw(check, Buffer.alloc(5000))), CODE.RESOURCE_EXHAUSTED)
  // Field 1, length-delimited, of more than there is.
  t.ok(await codeOf(client.raw(check, Buffer.from([0x0a, 0x7f, 0x01]))))
  t.same(await client.check(''), { status: 'SERVING' })
})

t.test('tls-01 a replaced certificate is presented at once, and connections that stand are kept', async (t) => {
  const node = await rig(t)
  const listener = await serveHealth(t, node)
  const [host = '', port = ''] = listener.where.split(':')
  const presented = async () => {
    const socket = connect({ host, port: Number(port), ca: node.certificate.cert, rejectUnauthorized: false })
    await once(socket, 'secureConnect')
    const { fingerprint256 } = socket.getPeerCertificate()
    socket.destroy()
    return fingerprint256
  }
  const client = await healthClient(t, listener, node)
  const watch = client.watch('')
  await once(watch, 'data')
  watch.on('error', (error) => t.fail(String(error)))
  t.equal(await presented(), node.certificate.fingerprint256)

  const next = await node.newCertificate()
  listener.setCertificate(next)
  t.equal(await presented(), next.fingerprint256)
  t.same(await client.check(''), { status: 'SERVING' }, 'over the connection of before')
  const trusting = await healthClient(t, listener, { certificate: next })
  t.same(await trusting.check(''), { status: 'SERVING' })
  watch.removeAllListeners('error').on('error', () => {})
})

t.test('grpc-01 a port that is taken is an error, not a crash', async (t) => {
  const node = await rig(t)
  const { where } = await serveHealth(t, node)
  const second = await rig(t, { config: { grpc_port: where.split(':')[1] ?? '' } })
  await t.rejects(serveHealth(t, second), { code: 'EADDRINUSE' })
})
