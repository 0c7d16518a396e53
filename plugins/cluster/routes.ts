/** REST of the cluster. What changes who belongs to it is done first and then told: there is no row that both could be one change of. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import type { EventDraft, TypedApp } from '../../core/area.ts'
import { conflict, forbidden, notFound } from '../../core/errors.ts'
import { planGate } from '../../core/licence/plan.ts'
import { type LicenceView, licenceRefusal } from '../../core/licence/state.ts'
import { carryOut, originOf } from '../../core/transport/mutation.ts'
import { addressOf } from './address.ts'
import { type Cluster, clusterOf, statusOf, summaryOf } from './cluster.ts'
import { encodeCode, listCodes, makeCode, revokeCode } from './codes.ts'
import { countsOf } from './counts.ts'
import { codeFor, joinByCode, remove } from './join.ts'
import { followCodes } from './newcomers.ts'
import { tellProcessing } from './processing.ts'
import * as schema from './schemas.ts'

const AREA = 'cluster'
/** The engine tells. */
const OF_ENGINE = { after: 'start' as const }
/** Nothing of it is stored. */
const MEASURED = { ...OF_ENGINE, volatile: true }
const idOf = ({ params }: { params: unknown }): string => (params as { id: string }).id
const member = (id: string) => `/cluster/members/${id}`
const codeRevoked = (id: string): EventDraft => ({
  type: 'join_code.deleted',
  resource: `/cluster/join-codes/${id}`,
  data: { id },
})

/** It has happened, whatever becomes of its event. */
async function tell(request: FastifyRequest, reply: FastifyReply, ...events: EventDraft[]): Promise<void> {
  await carryOut(request, reply, AREA, () => ({ result: undefined, touch: [], events })).catch((error: unknown) => {
    request.log.error({ err: error }, 'the event of a change of the cluster could not be stored')
  })
}

export function routes(app: TypedApp): void {
  const { config, store, now, gates } = app.agent
  const cluster = () => clusterOf(config)

  app.get(
    '/cluster',
    { config: MEASURED, schema: { summary: 'The cluster in brief', response: { 200: schema.Summary } } },
    () => summaryOf(cluster()),
  )
  app.get(
    '/cluster/status',
    {
      config: OF_ENGINE,
      schema: { summary: 'Role of this node, and the other members', response: { 200: schema.Status } },
    },
    () => statusOf(cluster()),
  )
  app.get(
    '/cluster/state',
    {
      config: MEASURED,
      schema: { summary: 'How much of what the members share this node has', response: { 200: schema.StateCounts } },
    },
    () => ({ blocklist_count: gates.lockout.blockCount(), ...countsOf(store.read, cluster().context.collections) }),
  )
  app.post(
    '/cluster/join',
    {
      // What the node cannot do is said before what the body lacks.
      onRequest: async () => cluster().require(),
      schema: {
        summary: 'Admit a node; it comes by `stratumctl cluster join` within an hour',
        body: schema.JoinInput,
        response: { 200: schema.Joined },
      },
    },
    async (request, reply) => {
      const { node_id: id } = request.body
      const address = addressOf(request.body.address)
      const { engine, told, require } = cluster()
      require()
      const isMember = () => engine.standing()?.members.some((one) => one.id === id) === true
      if (id === engine.self) throw conflict('IS_SELF', `${id} is this node: call the other one, or name the other one`)
      await engine.found()
      const before = isMember()
      if (!before) told.add(id)
      await engine.admit(id, address).catch((error: unknown) => {
        told.delete(id)
        throw error
      })
      if (!before)
        await tell(request, reply, { type: 'cluster_member.added', resource: member(id), data: { id, address } })
      return { status: 'joined' as const, node_id: id }
    },
  )
  app.post(
    '/cluster/leave',
    { schema: { summary: 'Leave the cluster, and go on with all there is', response: { 200: schema.Left } } },
    async (request, reply) => {
      const { engine, require } = cluster()
      require()
      const was = engine.standing() !== undefined
      await engine.quit()
      const { self: id } = engine
      if (was) await tell(request, reply, { type: 'cluster_member.removed', resource: member(id), data: { id } })
      return { status: 'left' as const }
    },
  )
  app.get(
    '/cluster/join-codes',
    {
      config: OF_ENGINE,
      schema: { summary: 'All join codes; what they are is never shown again', response: { 200: schema.JoinCodeList } },
    },
    async () => {
      const { engine } = cluster()
      return { join_codes: engine.standing() ? await listCodes(engine.records, now()) : [] }
    },
  )
  app.delete(
    '/cluster/join-codes/:id',
    { schema: { summary: 'Revoke a join code', response: { 200: schema.JoinCodeRevoked } } },
    async (request, reply) => {
      const id = idOf(request)
      const { engine } = cluster()
      if (engine.standing() === undefined) throw notFound('join code', id)
      await revokeCode(engine.records, id)
      await followCodes(cluster())
      await tell(request, reply, codeRevoked(id))
      return { status: 'revoked' as const, id }
    },
  )
  app.delete(
    '/cluster/members/:id',
    { schema: { summary: 'Remove another member, which need not be there', response: { 200: schema.MemberRemoved } } },
    async (request, reply) => {
      const id = idOf(request)
      const { engine, told } = cluster()
      if (id === engine.self) {
        throw conflict('IS_SELF', `${id} is this node: POST /api/v1/cluster/leave, or ask another member to remove it`)
      }
      if (engine.standing()?.members.some((one) => one.id === id) !== true) throw notFound('member', id)
      told.add(id)
      const revoked = await remove(cluster(), id).catch((error: unknown) => {
        told.delete(id)
        throw error
      })
      const codes = revoked.map(codeRevoked)
      await tell(request, reply, { type: 'cluster_member.removed', resource: member(id), data: { id } }, ...codes)
      return { status: 'removed' as const, id }
    },
  )
}

const CODE_SECONDS = 3 * 3600
const strict = { additionalProperties: false }
const NewCode = Type.Object({ ttl_seconds: Type.Optional(Type.Integer({ minimum: 60, maximum: 604_800 })) }, strict)
const GivenCode = Type.Object({ code: Type.String({ maxLength: 32_768 }) }, strict)

/** As of `POST /cluster/join`: the gates know no plan below /control. @throws ApiError 403 */
function requirePlan(licence: LicenceView): void {
  const needed = planGate('POST', '/cluster/join')
  const refusal = needed && licenceRefusal(licence, needed)
  if (refusal) throw forbidden('NOT_IN_PLAN', refusal.operator)
}

/** For the CLI of this node alone: what handles a join code, and the way out of a lost majority. */
export function control(app: TypedApp): void {
  const { config, now } = app.agent
  const cluster = (): Cluster => clusterOf(config)
  tellProcessing(app)

  app.get('/', { config: OF_ENGINE }, () => {
    const { whyOff } = cluster()
    const off = whyOff()
    return { ...summaryOf(cluster()), ...statusOf(cluster()), ...(off !== undefined && { off }) }
  })
  app.post('/join-codes', { schema: { body: NewCode } }, async (request, reply) => {
    const { engine, context, require } = cluster()
    requirePlan(context.licence())
    require()
    await engine.found()
    const { ttl_seconds: ttlSeconds = CODE_SECONDS } = request.body
    const { actor } = originOf(request)
    const { record, secret } = await makeCode(engine.records, actor, { ttlSeconds, now: now() })
    await followCodes(cluster())
    await tell(request, reply, {
      type: 'join_code.created',
      resource: `/cluster/join-codes/${record.id}`,
      data: record,
    })
    const code = encodeCode(codeFor(cluster(), secret, record.expires_at))
    return reply.code(201).send({ status: 'created', join_code: record, code })
  })
  app.post('/join', { schema: { body: GivenCode } }, async (request, reply) => {
    requirePlan(cluster().context.licence())
    const { cluster: name } = await joinByCode(cluster(), request.body.code)
    const { engine } = cluster()
    const address = engine.standing()?.members.find(({ id }) => id === engine.self)?.address ?? ''
    await tell(request, reply, {
      type: 'cluster_member.added',
      resource: member(engine.self),
      data: { id: engine.self, address },
    })
    return { status: 'joined', node_id: engine.self, cluster: name }
  })
  app.post('/recover', async (_request, _reply) => {
    const { engine } = cluster()
    await engine.recover()
    return { status: 'recovered', node_id: engine.self }
  })
}
