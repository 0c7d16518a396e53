/**
 * Calls for another member of this node's cluster (D102): `X-Node: <node>` on any path below /api/v1. The member called
 * judges who calls (allow-list, lockout, rate, credential), the member named judges the rest, its own allow-list for the
 * caller's address first, and its answer comes back as it is. Which members there are an area knows (`Peers`); without one
 * every name is unknown. Nothing is passed on twice: what was passed on is served where it arrives.
 */
import type { IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { isIP } from 'node:net'
import { pipeline } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Config } from '../config.ts'
import { ApiError } from '../errors.ts'
import { type Client, clientAt, clientOf } from '../gates/client.ts'
import type { Caller } from '../gates/gate.ts'
import type { Gates } from '../gates/index.ts'
import type { Lockout } from '../gates/lockout.ts'
import { STRANGER } from '../gates/standing.ts'
import { guardDoor } from './door.ts'
import { type Handler, listenRest, type RestListener } from './listener.ts'

/** Who calls, as the member called has found; travels to the member named. */
export interface Passed {
  /** Address of the caller; '' for one on the control socket of the member called, who counts as that member. */
  address: string
  /** Undefined for a public path without a credential. */
  caller: Caller | undefined
  requestId: string
}

export interface PassedCall {
  method: string
  /** Path and query as they came. */
  url: string
  /** Without those that concern one connection only, the credential, X-Node and the length of the body. */
  headers: OutgoingHttpHeaders
  /** undefined for none. */
  body: Buffer | undefined
  passed: Passed
}

/** The other members, as an area knows them. */
export interface Peers {
  /** What this node is called among them. */
  self(): string
  has(node: string): boolean
  /** Resolves with the head of the answer; ended by `signal`. @throws ApiError when none comes */
  pass(node: string, call: PassedCall, signal: AbortSignal): Promise<IncomingMessage>
}

/** What an area needs to be, or to have, such members. */
export interface Elsewhere {
  /** Who knows other members. An area that does adds itself when it starts. */
  peers: Set<Peers>
  /**
   * HTTPS for other nodes: asks for certificates of `ca` and hands over who has none as well (`socket.authorized`). Bounded
   * as the ports of the API are; those that `knows` no address of count as one, the others only in all.
   */
  listen(handler: Handler, options: MeshOptions): Promise<RestListener>
  /** Serves a call that the member at the other end has passed on. */
  serve(request: IncomingMessage, response: ServerResponse, passed: Passed): void
  /** By source address (`clientAt(…).key`), as for the API. */
  lockout: Pick<Lockout, 'refusal' | 'fail'>
}

export interface MeshOptions {
  address: string
  port: number
  /** PEM: the leaf, then its issuers. */
  cert: string
  key: string
  ca: string
  knows(address: string): boolean
}

/** The gates and the server are asked late, because they need the areas. */
export function openElsewhere(parts: { config: Config; gates: () => Gates; app: () => FastifyInstance }): Elsewhere {
  return {
    peers: new Set(),
    listen: (handler, { knows, ...options }) =>
      listenRest(handler, {
        ...options,
        guard: (server) =>
          guardDoor(server, {
            config: parts.config,
            app: parts.app(),
            gates: { admits: knows, standing: () => STRANGER },
            shares: knows,
          }),
      }),
    serve(request, response, passed) {
      markPassed(request, passed, request.socket.remoteAddress ?? '')
      parts.app().routing(request, response)
    },
    lockout: {
      refusal: (key) => parts.gates().lockout.refusal(key),
      fail: (key) => parts.gates().lockout.fail(key, 'cluster'),
    },
  }
}

const arrived = new WeakMap<IncomingMessage, Passed & { client: Client }>()

/** What another member has said of a call; undefined for one that came here by itself. */
export const passedOf = (request: IncomingMessage): (Passed & { client: Client }) | undefined => arrived.get(request)

/** Notes that `request` came from the member at `from` and is served here for the caller that it names. */
export function markPassed(request: IncomingMessage, passed: Passed, from: string): void {
  arrived.set(request, { ...passed, client: clientAt(passed.address === '' ? from : passed.address) })
}

/** Concern one connection (RFC 9110 §7.6.1). */
const HOP = ['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade']
/** For the member called alone. */
const OWN = ['content-length', 'host', 'authorization', 'proxy-authorization', 'cookie', 'expect', 'x-node']
/** What the caller has left is counted by the member called. */
const RATE = ['ratelimit-policy', 'ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset']

/** Of one caller's calls so many may be on their way to members; each holds a connection, and its body is in memory. */
const IN_FLIGHT = 32
const BODY_LIMIT = 1_048_576

/** What passes calls on, and counts by caller how many are on their way. */
export function openPassing(): typeof passOn {
  const flying = new Map<string, number>()
  return async (request, reply, peers) => {
    const { key } = clientOf(request.raw.socket)
    const others = flying.get(key) ?? 0
    if (others >= IN_FLIGHT)
      throw new ApiError(429, 'TOO_MANY', 'too many calls for other members at once', { 'retry-after': '1' })
    flying.set(key, others + 1)
    reply.raw.once('close', () => {
      const left = (flying.get(key) ?? 1) - 1
      if (left > 0) flying.set(key, left)
      else flying.delete(key)
    })
    await passOn(request, reply, peers)
  }
}

/**
 * Hands `request` to its member and that one's answer to the caller. Rejects only before anything was answered. The body is read
 * first, so that no caller holds a connection between members by being slow.
 */
async function passOn(request: FastifyRequest, reply: FastifyReply, peers: Peers): Promise<void> {
  const { raw, caller, member = '', id: requestId } = request
  const client = clientOf(raw.socket)
  const gone = new AbortController()
  // The caller went away: nobody reads the answer any more.
  reply.raw.once('close', () => gone.abort())
  const body = await bodyOf(raw, reply)
  const answer = await peers.pass(
    member,
    {
      method: request.method,
      url: request.url,
      headers: without(raw.headers, [...HOP, ...OWN]),
      body,
      passed: { address: client.address, caller, requestId },
    },
    gone.signal,
  )
  const rate = RATE.flatMap((name) => {
    const value = reply.getHeader(name)
    return value === undefined ? [] : [[name, value] as const]
  })
  reply.raw.writeHead(answer.statusCode ?? 502, answer.statusMessage, {
    ...without(answer.headers, [...HOP, ...RATE]),
    ...Object.fromEntries(rate),
  })
  reply.hijack()
  // An answer that breaks off breaks off here too: its length or its last chunk is missing.
  pipeline(answer, reply.raw, () => {})
}

async function bodyOf(raw: IncomingMessage, reply: FastifyReply): Promise<Buffer | undefined> {
  const parts: Buffer[] = []
  let size = 0
  try {
    // A stream that is destroyed takes the connection along, and with it the answer.
    for await (const part of raw.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      size += part.length
      if (size > BODY_LIMIT) break
      parts.push(part)
    }
  } catch (error) {
    throw new ApiError(400, 'ABORTED', 'the body ended too early', {}, error)
  }
  if (size > BODY_LIMIT) {
    reply.header('connection', 'close')
    throw new ApiError(413, 'TOO_LARGE', 'body over 1 MiB')
  }
  return size === 0 ? undefined : Buffer.concat(parts)
}

/** Also without what `Connection` names, unless the end of the body is found by it. */
function without(headers: IncomingHttpHeaders, names: readonly string[]): OutgoingHttpHeaders {
  const dropped = new Set([...names, ...(headers.connection ?? '').toLowerCase().split(/[\s,]+/)])
  dropped.delete('content-length')
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !dropped.has(name)))
}

const KINDS: ReadonlySet<unknown> = new Set(['token', 'operator', 'tenant', 'cli'])

/** As it travels in one header. */
export const encodePassed = (passed: Passed): string => Buffer.from(JSON.stringify(passed)).toString('base64url')

/** The reverse; undefined for what no member would send. */
export function decodePassed(text: string): Passed | undefined {
  try {
    const { address, caller, requestId } = JSON.parse(Buffer.from(text, 'base64url').toString()) as Record<
      string,
      unknown
    >
    if (typeof address !== 'string' || (address !== '' && isIP(address) === 0)) return undefined
    if (typeof requestId !== 'string' || !/^[0-9A-Za-z-]{1,64}$/.test(requestId)) return undefined
    if (caller === undefined) return { address, caller: undefined, requestId }
    const { kind, label, tenantId, suspended } = caller as Record<string, unknown>
    if (!KINDS.has(kind) || typeof label !== 'string' || label.length > 256) return undefined
    if (kind === 'tenant' && typeof tenantId !== 'string') return undefined
    const known: Caller = { kind: kind as Caller['kind'], label }
    if (typeof tenantId === 'string') known.tenantId = tenantId
    if (suspended === true) known.suspended = true
    return { address, caller: known, requestId }
  } catch {
    return undefined
  }
}
