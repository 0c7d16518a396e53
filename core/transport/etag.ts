/**
 * Entity tags and preconditions (RFC 9110 §8.8.3 and §13): a client names the state that it has read, and a change of
 * another state is refused. A tag is a digest of the object that a GET answers, so it is the same after a restart, and a
 * thing that was changed and changed back is the one that was read.
 */
import { hash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { ApiError, badRequest } from '../errors.ts'

/** Says what a compressed answer is tagged with: another sequence of bytes must have another strong tag (§8.8.3.3). */
const GZIPPED = '-gzip'

/** Strong tag of what a GET answers, quotes included. */
export const tagOf = (thing: object): string => `"${hash('sha256', JSON.stringify(thing), 'hex').slice(0, 32)}"`

/** The tag of the same answer when it is compressed. */
export const gzippedTag = (tag: string): string => `${tag.slice(0, -1)}${GZIPPED}"`

/**
 * Answers with one thing that is stored, and its ETag; the handler returns what this returns. 304 when the client has it
 * already (If-None-Match), 412 when it wants another state (If-Match).
 */
export function sendOne<T extends object>(request: FastifyRequest, reply: FastifyReply, thing: T): T {
  const tag = tagOf(thing)
  const { 'if-match': wanted, 'if-none-match': held } = request.headers
  if (wanted !== undefined && !selects(read('If-Match', wanted), tag, false)) throw changed(request)
  reply.header('etag', tag)
  if (held === undefined || !selects(read('If-None-Match', held), tag, true)) return thing
  const sent = reply.code(304).header('vary', 'accept-encoding').send()
  // A handler that returns the reply has answered; Fastify's types know only handlers that return the payload.
  return sent as never
}

/** Judges the thing that a change is about to meet. @throws ApiError 412 */
export type Precondition = (current: object | undefined) => void

/**
 * What a change asks of the thing it changes; undefined when it asks nothing. A collection or an action has no tag:
 * `hasTag` false. @throws ApiError 400 when a header cannot be read
 */
export function preconditionOf(request: FastifyRequest, hasTag: boolean): Precondition | undefined {
  const { 'if-match': wanted, 'if-none-match': unwanted } = request.headers
  if (wanted === undefined && unwanted === undefined) return undefined
  const match = wanted === undefined ? undefined : read('If-Match', wanted)
  const noneMatch = unwanted === undefined ? undefined : read('If-None-Match', unwanted)
  return (current) => {
    const tag = current && (hasTag ? tagOf(current) : '')
    if (match !== undefined && !selects(match, tag, false)) throw hasTag ? changed(request) : untagged(request)
    if (noneMatch !== undefined && selects(noneMatch, tag, true)) throw exists(request)
  }
}

interface Listed {
  weak: boolean
  /** Quotes included, without what compression adds. */
  tag: string
}
type Condition = '*' | readonly Listed[]

/** Whether a condition names the state with `tag`, where undefined is no state at all; weak tags count only if `weakly`. */
function selects(condition: Condition, tag: string | undefined, weakly: boolean): boolean {
  if (tag === undefined) return false
  return condition === '*' || condition.some((one) => one.tag === tag && (weakly || !one.weak))
}

/** `*`, or tags in a list whose empty elements are skipped (§5.6.1.2, §8.8.3). A list without any is a slip of the client. */
function read(name: string, header: string): Condition {
  const text = header.trim()
  if (text === '*') return '*'
  const element = /[\t ]*(?:(W\/)?("[\x21\x23-\x7e\x80-\xff]*")[\t ]*)?(,|$)/y
  const listed: Listed[] = []
  for (;;) {
    const [, weak, tag, end] = element.exec(text) ?? []
    if (end === undefined) throw malformed(name)
    if (tag !== undefined) listed.push({ weak: weak !== undefined, tag: plain(tag) })
    if (end === '') break
  }
  if (listed.length === 0) throw malformed(name)
  return listed
}

const plain = (tag: string): string => (tag.endsWith(`${GZIPPED}"`) ? `${tag.slice(0, -GZIPPED.length - 1)}"` : tag)

const malformed = (name: string) => badRequest(`${name}: must be * or a list of entity tags, each in double quotes`)
const failed = (why: string) => new ApiError(412, 'PRECONDITION_FAILED', `precondition failed: ${why}`)
const changed = (request: FastifyRequest) => failed(`${thingOf(request)} changed since it was read`)
const untagged = (request: FastifyRequest) => failed(`${thingOf(request)} has no ETag; send If-Match to a single thing`)
const exists = (request: FastifyRequest) => failed(`${thingOf(request)} is there already`)

/** The path, which the request has proved to be one of ours. */
const thingOf = ({ url }: FastifyRequest): string => (url.split('?', 1)[0] ?? '').slice(0, 128)
