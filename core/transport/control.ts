/** `/control/v1`: what the local CLI needs and REST must not offer. Reachable over the root-only socket alone. */
import { randomBytes } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import type { Agent } from '../agent.ts'
import { remedied } from '../agent-state.ts'
import type { LoadedArea, TypedApp } from '../area.ts'
import { isCredentialKey } from '../config.ts'
import { ApiError, badRequest, notAvailable, notFound } from '../errors.ts'
import { hashSecret } from '../gates/bearer.ts'
import { clientAt } from '../gates/client.ts'
import { LicenceError } from '../licence/file.ts'
import { mintOperatorKey, revokeOperatorKey } from '../operator-keys.ts'
import { FreeText } from '../schemas.ts'
import { driftRoute } from './drift-route.ts'
import { carryOut, originOf } from './mutation.ts'
import { readQuestion } from './stream/question.ts'
import { TAIL_TYPE } from './tail.ts'

/** At least 32 printable characters without blanks: what an Authorization header can carry. */
export const Token = Type.String({
  title: '32 to 256 characters A-Z a-z 0-9 . _ ~ + / = -',
  minLength: 32,
  maxLength: 256,
  pattern: '^[A-Za-z0-9._~+/=-]+$',
})
const Key = Type.String({ maxLength: 64 })
const strict = { additionalProperties: false }
/** Changes of the overrides alone. Whoever wants strangers out does not wait for a data plane that may never open. */
const AT_ONCE = { atOnce: true } as const
const NEXT_START = 'takes effect at the next start of the agent'

export const newToken = (): string => `nt_${randomBytes(32).toString('base64url')}`

export async function mountControl(root: FastifyInstance, agent: Agent, areas: readonly LoadedArea[]): Promise<void> {
  await root.register(
    async (plain) => {
      const app = plain as unknown as TypedApp
      tokenRoutes(app, agent)
      serviceRoutes(app, agent)
      configRoutes(app, agent)
      keyRoutes(app, agent)
      licenceRoutes(app, agent)
      blockRoutes(app, agent)
      eventRoutes(app, agent)
      driftRoute(app, agent)
    },
    { prefix: '/control/v1' },
  )
  for (const { name, control } of areas) {
    if (control === undefined) continue
    await root.register(
      async (app) => {
        app.addHook('onRequest', (_request, _reply, done) => {
          const reason = agent.states.reasonOff(name)
          done(reason === undefined ? undefined : notAvailable(name, reason))
        })
        app.addHook('onRoute', (route) => {
          route.config = { ...route.config, frozen: true }
        })
        control(app as unknown as TypedApp)
      },
      { prefix: `/control/v1/${name}` },
    )
  }
}

function tokenRoutes(app: TypedApp, { overrides }: Agent): void {
  const set = (token: string) =>
    overrides.change((content) => {
      content.tokenHash = hashSecret(token).toString('hex')
    })
  app.get('/token', () => ({ set: overrides.read().tokenHash !== undefined }))
  app.post('/token/generate', { config: AT_ONCE }, () => {
    const token = newToken()
    set(token)
    return { status: 'created', token, note: NEXT_START }
  })
  app.put('/token', { config: AT_ONCE, schema: { body: Type.Object({ token: Token }, strict) } }, (request) => {
    set(request.body.token)
    return { status: 'updated', note: NEXT_START }
  })
  app.delete('/token', { config: AT_ONCE }, () => {
    overrides.change((content) => void delete content.tokenHash)
    return { status: 'deleted', note: NEXT_START }
  })
}

function serviceRoutes(app: TypedApp, agent: Agent): void {
  const { overrides, states, plane } = agent
  const status = () => {
    const amiss = remedied(agent)
    return {
      // Until it has started nobody knows which areas the node can carry, nor what is amiss.
      starting: agent.stages.doing(),
      services: agent.services.status(),
      areas: states.all(),
      facilities: plane.check(),
      troubles: amiss.map(({ what }) => what),
      amiss,
    }
  }
  app.get('/services', status)
  const Body = Type.Object({ on: Type.Boolean() }, strict)
  app.put('/services/rest', { config: AT_ONCE, schema: { body: Body } }, async (request) => {
    overrides.change((content) => {
      content.rest = request.body.on
    })
    await agent.services.follow()
    return { status: 'updated', ...status() }
  })
}

function configRoutes(app: TypedApp, { config, overrides }: Agent): void {
  const show = (key: string) => {
    const [value, inForce] = [config.stored(key), config.text(key)]
    return { key, value, source: config.source(key), ...(value !== inForce && { in_force: inForce }) }
  }
  const known = (key: string) => {
    if (isCredentialKey(key)) throw badRequest(`${key} is a credential: use api-token or apikeys, never config`)
    if (!config.keys().includes(key)) throw notFound('configuration key', JSON.stringify(key.slice(0, 64)))
  }
  /** A value that cannot be put into force is taken back: the answer is an error, and nothing has changed. */
  const store = async (key: string, value: string | undefined) => {
    const old = overrides.read().config[key]
    const write = (text: string | undefined) =>
      overrides.change((content) => {
        if (text === undefined) delete content.config[key]
        else content.config[key] = text
      })
    write(value)
    try {
      await config.reload()
    } catch (error) {
      write(old)
      await config.reload()
      throw error
    }
  }
  app.get('/config', () => ({ config: config.keys().map(show) }))
  const Params = Type.Object({ key: Key })
  app.get('/config/:key', { schema: { params: Params } }, (request) => {
    known(request.params.key)
    return show(request.params.key)
  })
  const Body = Type.Object({ value: Type.String({ maxLength: 65_536 }) }, strict)
  app.put('/config/:key', { schema: { params: Params, body: Body } }, async (request) => {
    const { key } = request.params
    known(key)
    const wrong = config.problem(key, request.body.value)
    if (wrong !== undefined) throw badRequest(`${key}: ${wrong}`)
    const remark = config.remark(key, request.body.value)
    await store(key, request.body.value)
    return { status: 'updated', key, effective: config.effective(key), ...(remark !== undefined && { remark }) }
  })
  app.delete('/config/:key', { schema: { params: Params } }, async (request) => {
    const { key } = request.params
    // What an older or newer version knew may be left over.
    if (!Object.hasOwn(overrides.read().config, key)) known(key)
    await store(key, undefined)
    return { status: 'deleted', key, effective: config.effective(key) }
  })
}

function keyRoutes(app: TypedApp, { operatorKeys, now }: Agent): void {
  app.get('/apikeys', () => ({ keys: operatorKeys.list() }))
  const Body = Type.Object({ label: FreeText }, strict)
  app.post('/apikeys', { schema: { body: Body } }, async (request, reply) => {
    if (request.body.label === '') throw badRequest('label is required')
    const minted = await carryOut(request, reply, 'core', (tx) => mintOperatorKey(tx, request.body.label, now()))
    operatorKeys.reload()
    return reply.code(201).send({ status: 'created', ...minted })
  })
  const Params = Type.Object({ id: Key })
  app.delete('/apikeys/:id', { schema: { params: Params } }, async (request, reply) => {
    const revoked = await carryOut(request, reply, 'core', (tx) => revokeOperatorKey(tx, request.params.id))
    operatorKeys.reload()
    return revoked
  })
}

function licenceRoutes(app: TypedApp, { licence, licenceNews }: Agent): void {
  const install = async (request: FastifyRequest, reply: FastifyReply, work: Promise<unknown>) => {
    const origin = originOf(request)
    try {
      await work
    } catch (error) {
      await licenceNews.refused(origin, error)
      throw error instanceof LicenceError ? new ApiError(400, 'LICENCE', error.message) : error
    }
    const eventId = await licenceNews.installed(origin)
    if (eventId !== undefined) reply.header('x-event-id', eventId)
    return { status: 'installed', ...show() }
  }
  const show = () => ({ license: licence.view(), reason: licence.reason() })
  app.get('/license', show)
  const Body = Type.Object({ text: Type.String({ maxLength: 65_536 }) }, strict)
  app.put('/license', { schema: { body: Body } }, (request, reply) =>
    install(request, reply, licence.install(request.body.text)),
  )
  app.post('/license/evaluate', (request, reply) => install(request, reply, licence.evaluate()))
}

function blockRoutes(app: TypedApp, { gates, announce }: Agent): void {
  app.get('/blocks', () => ({ blocks: gates.lockout.blocks() }))
  const Params = Type.Object({ address: Type.String({ maxLength: 64 }) })
  app.delete('/blocks/:address', { schema: { params: Params } }, async (request, reply) => {
    const { address } = request.params
    // Blocks are kept by /64 of an IPv6 address: any address inside names it.
    const block = [address, clientAt(address).key].find((key) => gates.lockout.unblock(key))
    if (block === undefined) throw notFound('block of', address)
    const draft = { type: 'auth.updated', resource: '/control/v1/blocks', data: { address: block, blocked: false } }
    // The block is gone, whatever becomes of the event.
    const eventId = await announce(originOf(request), () => [draft]).catch((error: unknown) => {
      request.log.error({ err: error }, 'the event of a lifted block could not be stored')
      return undefined
    })
    if (eventId !== undefined) reply.header('x-event-id', eventId)
    return { status: 'removed', address }
  })
}

function eventRoutes(app: TypedApp, agent: Agent): void {
  // An answer to HEAD would have no end either.
  app.get('/events', { exposeHeadRoute: false }, (request, reply) => {
    // The query string is parsed into an object of strings and lists of strings.
    const question = readQuestion(request.query as Record<string, unknown>)
    reply.hijack()
    reply.raw.writeHead(200, { 'content-type': TAIL_TYPE, 'x-request-id': request.id })
    agent.tails.serve(reply.raw, question)
  })
}
