/** The order of the gates is the order in which refusals win (D1). */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { AreaStates } from '../areas.ts'
import type { Config } from '../config.ts'
import { type ApiError, noSuchPath } from '../errors.ts'
import type { LicenceView } from '../licence/state.ts'
import type { GateCounts } from '../observe/counts.ts'
import { openPassing, type Peers, passedOf } from '../transport/elsewhere.ts'
import { allowList } from './allow-list.ts'
import { bearer, type Credentials, credentialOf } from './bearer.ts'
import { clientOf } from './client.ts'
import { freeze } from './freeze.ts'
import { apiPath, type Call, type Gate } from './gate.ts'
import { type Lockout, lockout, type NewBlock } from './lockout.ts'
import { introduced, member } from './member.ts'
import { plan } from './plan.ts'
import { rate } from './rate.ts'
import { scope } from './scope.ts'
import { standings } from './standing.ts'
import { subsystem } from './subsystem.ts'

/** In the order in which refusals win. */
export const GATES = [
  'allow_list',
  'lockout',
  'rate',
  'bearer',
  'member',
  'scope',
  'plan',
  'unknown_path',
  'freeze',
  'subsystem',
] as const
export type GateName = (typeof GATES)[number]

/** Judged by the member called, once for a caller: these are asked for no call that another member has passed on. */
const ELSEWHERE: ReadonlySet<GateName> = new Set(['lockout', 'rate', 'member'])

export interface GateParts {
  config: Config
  credentials: Credentials
  licence: () => LicenceView
  states: AreaStates
  /** Milliseconds. */
  now: () => number
  counts: GateCounts
  /** What the agent does at its start, while not every area that keeps keys runs. */
  starting?: () => string | undefined
  /** Who knows the other members of the cluster. */
  peers?: ReadonlySet<Peers>
  /** Is told of every address that is blocked from now on. */
  blocked?: (block: NewBlock) => void
}

/** Who calls: an operator, or one who bears a key of an area that has not started, or nobody on a public path. */
export type Foreseen = 'refused' | 'known' | 'unclear' | 'stranger'
type Asked = Pick<FastifyRequest, 'raw' | 'headers' | 'routeOptions'>

export type Gates = ReturnType<typeof openGates>

export function openGates({
  config,
  credentials,
  licence,
  states,
  now,
  counts,
  blocked,
  starting = () => undefined,
  peers = new Set(),
}: GateParts) {
  const allowed = allowList(config)
  const locked = counted(lockout(config, now, blocked), counts)
  const rated = rate(config, now)
  const heard = standings(now)
  /** Below a prefix of a subsystem that is off nobody can say which paths there would be: the 503 of the last gate answers. */
  const known: Gate = ({ request, client, path }) => {
    if (path !== undefined && states.offAt(path) !== undefined) return undefined
    if (request.is404) return noSuchPath()
    // The router also knows spellings that no gate has judged (`/%61pi/v1`, absolute form): they are nobody's path.
    const control = client.control && request.routeOptions.url?.startsWith('/control/v1/') === true
    return path === undefined && !control ? noSuchPath() : undefined
  }
  const gates: Record<GateName, Gate> = {
    allow_list: allowed.gate,
    lockout: locked.gate,
    rate: rated.gate,
    bearer: bearer(credentials, locked, starting),
    member: member(peers),
    scope,
    plan: plan(licence),
    unknown_path: known,
    freeze: freeze(licence),
    subsystem: subsystem(states),
  }
  const order = GATES.map((name) => ({ name, gate: gates[name] }))
  const passOn = openPassing()
  const passedOrder = order
    .filter(({ name }) => !ELSEWHERE.has(name))
    .map(({ name, gate }) => ({ name, gate: name === 'bearer' ? introduced : gate }))

  /** The refusal that wins, or nothing when the call may pass. */
  function judge(request: FastifyRequest, reply: FastifyReply): ApiError | undefined {
    const passed = passedOf(request.raw)
    const call: Call = {
      request,
      reply,
      client: passed?.client ?? clientOf(request.raw.socket),
      path: apiPath(request.url),
      caller: undefined,
      member: undefined,
    }
    for (const { name, gate } of passed === undefined ? order : passedOrder) {
      const refusal = gate(call)
      if (refusal !== undefined) {
        counts.refused(name)
        if (passed === undefined && !reply.hasHeader('ratelimit-limit')) rated.tell(call)
        return refusal
      }
      if (call.member !== undefined) break
    }
    if (passed === undefined && call.caller !== undefined && !call.client.control)
      heard.note(call.client.key, call.caller.kind)
    request.caller = call.caller
    request.member = call.member
    return undefined
  }

  /** What the gates would say of who calls, as far as it can be said and without counting it. */
  function foresee({ raw, headers, routeOptions }: Asked): Foreseen {
    if (passedOf(raw) !== undefined) return 'known'
    const { control, address, key } = clientOf(raw.socket)
    if (control) return 'known'
    if (!allowed.admits(address) || locked.refusal(key) !== undefined) return 'refused'
    if (routeOptions.config.public === true) return 'stranger'
    const credential = credentialOf(credentials, headers.authorization)
    return credential === 'wrong' ? 'refused' : credential
  }

  return {
    judge,
    foresee,
    admits: allowed.admits,
    lockout: locked,
    rate: rated,
    /** Whether a source, by its key, has shown a credential lately. */
    standing: heard.of,
    /** A credential was accepted by a transport that has no Fastify request. */
    heard: heard.note,
    /** Counts a refusal by the transports that have no Fastify request. */
    refused: (gate: GateName) => counts.refused(gate),
    /** Root hook, so that it also guards unknown paths. */
    mount(app: FastifyInstance): void {
      app.decorateRequest('caller', undefined)
      app.decorateRequest('member', undefined)
      app.addHook('onRequest', (request, reply, done) => {
        const refusal = judge(request, reply)
        const to = [...peers].find((one) => request.member !== undefined && one.has(request.member))
        if (refusal !== undefined) done(refusal)
        else if (to === undefined) done()
        // What was passed on is answered: nothing of this request comes after.
        else passOn(request, reply, to).catch(done)
      })
    },
  }
}

function counted(lockout: Lockout, counts: GateCounts): Lockout {
  return {
    ...lockout,
    fail(key, transport = 'rest') {
      counts.authenticationFailed(transport)
      lockout.fail(key, transport)
    },
  }
}
