/**
 * Calls for another member of this node's cluster (D102): `X-Node: <node>` on any path below /api/v1. The member called
 * judges who calls (allow-list, lockout, rate, credential), the member named judges the rest, its own allow-list for the
 * caller's address first, and its answer comes back as it is. Which members there are an area knows (`Peers`); without one
 * every name is unknown. Nothing is passed on twice: what was passed on is served where it arrives.
 */
import type { IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { isIP } from 'node:net'
import { pipeline, type Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Config } from '../config.ts'
import { type Client, clientAt, clientOf } from '../gates/client.ts'
import type { Caller } from '../gates/gate.ts'
import type { Gates } from '../gates/index.ts'
import type { Lockout } from '../gates/lockout.ts'
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
  /** Without those that concern one connection only, the credential and X-Node. */
  headers: OutgoingHttpHeaders
  /** Bytes of the body; undefined for none. */
  body: Readable | undefined
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
   * as the ports of the API are; those that `knows` no address of count as one.
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
        guard: (server) => guardDoor(server, { config: parts.config, app: parts.app(), gates: { admits: knows } }),
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
const OWN = ['host', 'authorization', 'proxy-authorization', 'cookie', 'expect', 'x-node']
/** What the caller has left is counted by the member called. */
const RATE = ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset']

/** Hands `request` to its member and that one's answer to the caller. Rejects only before anything was answered. */
export async function passOn(request: FastifyRequest, reply: FastifyReply, peers: Peers): Promise<void> {
  const { raw, caller, member = '', id: requestId } = request
  const client = clientOf(raw.socket)
  const gone = new AbortController()
  // The caller went away: nobody reads the answer any more.
  reply.raw.once('close', () => gone.abort())
  const answer = await peers.pass(
    member,
    {
      method: request.method,
      url: request.url,
      headers: without(raw.headers, [...HOP, ...OWN]),
      body: hasBody(raw.headers) ? raw : undefined,
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

const hasBody = (headers: IncomingHttpHeaders): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0

/** Also without what `Connection` names. */
function without(headers: IncomingHttpHeaders, names: readonly string[]): OutgoingHttpHeaders {
  const dropped = new Set([...names, ...(headers.connection ?? '').toLowerCase().split(/[\s,]+/)])
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
