/**
 * The door of a member (`cluster_port`): HTTPS for other nodes. A member, known by its certificate and by being one still, may
 * pass calls on; whoever has no such certificate may join by a code, and nothing else.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { TLSSocket } from 'node:tls'
import { ApiError, badRequest, forbidden, noSuchPath } from '../../../core/errors.ts'
import { clientAt } from '../../../core/gates/client.ts'
import { decodePassed, type Elsewhere } from '../../../core/transport/elsewhere.ts'
import type { RestListener } from '../../../core/transport/listener.ts'
import { chainOf } from '../authority.ts'
import { fingerprintOf } from '../certificates.ts'
import { FAREWELL } from '../farewell.ts'
import { unavailable } from '../membership.ts'
import { AUTHORITIES } from './asking.ts'
import { CALLER, PASS } from './peers.ts'

export interface DoorMember {
  id: string
  address: string
  /** Of its key (`fingerprintOf`). */
  key?: string | undefined
}

export interface DoorParts {
  elsewhere: Pick<Elsewhere, 'listen' | 'serve' | 'lockout'>
  address: string
  port: number
  /** PEM. */
  tls: { ca: string; certificate: string; key: string }
  /** The other members now. */
  members(): Iterable<DoorMember>
  /** What is asked for by a code; `refused` is thrown when it is not accepted. @throws ApiError */
  join(body: unknown): Promise<object>
  /** The member whose certificate was shown was not able to enter. @throws ApiError */
  withdraw(node: string): Promise<object>
  /** Whether the node whose certificate was shown can still come. @throws ApiError 409 */
  mayCome(node: string): Promise<object>
  /** A member says that this node is one no more. */
  dismissed(): Promise<object>
  /** Whom this node trusts, for a member that was away. */
  authorities(): object
  /** A defect: what went wrong is for the log alone. */
  problem(error: unknown): void
}

/** Asked by a node that was admitted and is not taken in yet. */
export const ENTRY = '/entry'
/** More than any request to join takes. */
const BODY_LIMIT = 16_384

export function openDoor(parts: DoorParts): Promise<RestListener> {
  const { elsewhere, address, port, tls } = parts
  const knows = (from: string) => [...parts.members()].some((member) => clientAt(member.address).address === from)
  const handle = (request: IncomingMessage, response: ServerResponse): void => {
    const { url = '', method } = request
    const member = memberBehind(request.socket as TLSSocket, parts)
    if (url.startsWith(`${PASS}/`)) {
      const passed = member === undefined ? undefined : decodePassed(String(request.headers[CALLER] ?? ''))
      if (passed === undefined) {
        refuse(response, isBlind(request.socket as TLSSocket, parts) ? unavailable(UNHEARD) : NOT_A_MEMBER)
        return
      }
      request.url = url.slice(PASS.length)
      delete request.headers[CALLER]
      elsewhere.serve(request, response, passed)
      return
    }
    const answer = (work: Promise<object>) =>
      work.then(
        (body) => send(response, 200, body),
        (error: unknown) => {
          if (!(error instanceof ApiError)) parts.problem(error)
          refuse(response, error instanceof ApiError ? error : DEFECT)
        },
      )
    const socket = request.socket as TLSSocket
    if (method === 'POST' && url === '/join') void answer(judgedJoin(request, parts))
    else if (method === 'GET' && url === AUTHORITIES && member !== undefined) send(response, 200, parts.authorities())
    // Who is cut off from all others cannot know yet which keys are those of members.
    else if (method === 'POST' && url === FAREWELL && (member !== undefined || isBlind(socket, parts)))
      void answer(parts.dismissed())
    else if (member === undefined)
      refuse(response, url === ENTRY && isBlind(socket, parts) ? unavailable(UNHEARD) : NOT_A_MEMBER)
    else if (method === 'POST' && url === '/withdraw') void answer(parts.withdraw(member))
    else if (method === 'POST' && url === ENTRY) void answer(parts.mayCome(member))
    else refuse(response, noSuchPath())
  }
  return elsewhere.listen(handle, { address, port, cert: chainOf(tls), key: tls.key, ca: tls.ca, knows })
}

const NOT_A_MEMBER = forbidden('NOT_A_MEMBER', 'forbidden: for members of the cluster only')
const UNHEARD = 'the member has yet to hear from its etcd which keys are those of members'
const DEFECT = new ApiError(500, 'INTERNAL', 'internal error')

/**
 * What counts is who is a member now, and whose key is whose: a removed member's certificate is good until it expires, and
 * whoever was a member could have signed others with any name.
 */
function memberBehind(socket: TLSSocket, { members }: DoorParts): string | undefined {
  if (!socket.authorized) return undefined
  const shown = socket.getPeerX509Certificate()
  if (shown === undefined) return undefined
  const fingerprint = fingerprintOf(shown.publicKey)
  return [...members()].find(({ key }) => key === fingerprint)?.id
}

/** After a start it is not known whose key is whose until etcd has said so. */
const isBlind = (socket: TLSSocket, { members }: DoorParts): boolean =>
  socket.authorized && [...members()].every(({ key }) => key === undefined)

/** What is no code counts as a failed authentication of the address that it comes from. */
async function judgedJoin(request: IncomingMessage, { elsewhere: { lockout }, join }: DoorParts): Promise<object> {
  const { key } = clientAt(request.socket.remoteAddress ?? '')
  const blocked = lockout.refusal(key)
  if (blocked) throw blocked
  const body = await bodyOf(request)
  try {
    return await join(body)
  } catch (error) {
    if (error instanceof ApiError && error.code === 'JOIN_CODE') lockout.fail(key)
    throw error
  }
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = []
  let size = 0
  try {
    for await (const part of request as AsyncIterable<Buffer>) {
      size += part.length
      if (size > BODY_LIMIT) throw new ApiError(413, 'TOO_LARGE', 'body over 16 KiB')
      parts.push(part)
    }
  } catch (error) {
    // A stranger that breaks off is no defect, and nothing for the log.
    throw error instanceof ApiError ? error : badRequest('the body ended too early')
  }
  try {
    return JSON.parse(Buffer.concat(parts).toString())
  } catch {
    throw badRequest('malformed JSON')
  }
}

function send(
  response: ServerResponse,
  status: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): void {
  const text = JSON.stringify(body)
  response.writeHead(status, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    ...headers,
  })
  response.end(text)
}

/** Whoever is refused has no use for the connection. */
const refuse = (response: ServerResponse, { status, message, headers }: ApiError): void =>
  send(response, status, { error: message }, { ...headers, connection: 'close' })
