/** Keys that are good on REST are good for nothing on the ports of the event stream and of the health service. */
import { once } from 'node:events'
import type { ServiceError } from '@grpc/grpc-js'
import t from 'tap'
import { listenGrpc } from '../../core/transport/grpc.ts'
import { healthClient, refusal } from '../../core/transport/stream/test/rig.ts'
import { EVENTS_PATH, listenEvents } from '../../core/transport/stream.ts'
import { loadCertificate } from '../../core/transport/tls.ts'
import { ask } from './ask.ts'
import { tenantry } from './tenantry.ts'

const UNAUTHENTICATED = 16

t.test('auth-08 auth-09 auth-11 auth-12 keys of operators and tenants are refused on 7072 and 7071', async (t) => {
  const built = await tenantry(t, {
    config: { api_bind_address: '127.0.0.1', grpc_port: '0', events_port: '0' },
  })
  const { agent, key, own, stateDir } = built
  const certificate = await loadCertificate({ stateDir, nodeName: 'node', addresses: async () => [], now: new Date() })
  const [events, health] = [await listenEvents(agent, certificate), await listenGrpc(agent, certificate)]
  t.teardown(() => Promise.all([events.close(100), health.close(100)]))
  const client = await healthClient(t, health, { certificate })
  const onRest = async (token: string, url: string) => (await ask(agent, 'GET', url, { token })).status
  t.equal(await onRest(key.own, `/api/v1/tenant/${own}`), 200, 'the tenant’s key is good on REST')
  t.equal(await onRest(key.operator, '/api/v1/status'), 200, 'and so is the operator’s')

  for (const [name, token] of Object.entries(key)) {
    if (name === 'node') continue
    const authorization = `Bearer ${token}`
    for (const path of [
      EVENTS_PATH,
      `${EVENTS_PATH}?types=tenant.*`,
      `/api/v1/tenant/${own}`,
      `/tenant/${own}/events`,
    ]) {
      t.match(
        await refusal(events, { certificate }, path, { authorization }),
        { status: 401, body: { error: 'unauthorized' } },
        `${name} on ${path}`,
      )
    }
    for (const service of ['', 'tenants', 'compute']) {
      await t.rejects(client.check(service, authorization), { code: UNAUTHENTICATED }, `${name} checks ${service}`)
      const [error] = (await once(client.watch(service, authorization), 'error')) as [ServiceError]
      t.equal(error.code, UNAUTHENTICATED, `${name} watches ${service}`)
    }
    await t.rejects(client.list(authorization), { code: UNAUTHENTICATED }, `${name} lists`)
  }
  t.match(await client.check('', `Bearer ${key.node}`), { status: 'SERVING' }, 'the node token is good there')
})

t.test(
  'auth-11 auth-12 auth-27 a tenant’s key that is tried there counts as a failure, and blocks the address',
  async (t) => {
    const built = await tenantry(t, {
      config: { api_bind_address: '127.0.0.1', grpc_port: '0', events_port: '0', api_auth_fail_limit: '3' },
    })
    const { agent, key, stateDir } = built
    const certificate = await loadCertificate({
      stateDir,
      nodeName: 'node',
      addresses: async () => [],
      now: new Date(),
    })
    const [events, health] = [await listenEvents(agent, certificate), await listenGrpc(agent, certificate)]
    t.teardown(() => Promise.all([events.close(100), health.close(100)]))
    const client = await healthClient(t, health, { certificate })
    const authorization = `Bearer ${key.own}`
    await refusal(events, { certificate }, EVENTS_PATH, { authorization })
    await refusal(events, { certificate }, EVENTS_PATH, { authorization })
    t.same(agent.gates.lockout.blocks(), [])
    await t.rejects(client.check('', authorization), { code: UNAUTHENTICATED })
    t.match(agent.gates.lockout.blocks(), [{ address: '127.0.0.1', failures: 3 }])
  },
)
