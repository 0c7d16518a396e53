/** What holds for every route: JSON in and out, strict types, request ids, compression. */

import { isUtf8 } from 'node:buffer'
import { randomBytes } from 'node:crypto'
import { pipeline, Readable } from 'node:stream'
import { createGzip, gzip } from 'node:zlib'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify'
import { type ApiError, badRequest, notImplemented } from '../errors.ts'
import type { Gates } from '../gates/index.ts'
import { lateCompilers } from './compilers.ts'
import { passedOf } from './elsewhere.ts'
import { gzippedTag } from './etag.ts'
import { parseBody } from './json.ts'
import { answerError, violationText } from './problems.ts'

const BODY_LIMIT = 1_048_576
const COMPRESS_FROM = 1024

/**
 * The bare server of the API. `gates` is asked late because the gates need the areas; `unrouted` is told of answers that
 * no hook sees.
 */
export function openServer(
  logger: FastifyBaseLogger,
  gates: () => Gates,
  unrouted?: (request: FastifyRequest, reply: FastifyReply) => void,
): FastifyInstance {
  const boot = randomBytes(4).toString('hex')
  let requests = 0
  const app = Fastify({
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: BODY_LIMIT,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 256 },
    // A child logger per request costs more than the rest of a small answer; where it matters the id is logged by name.
    childLoggerFactory: (parent) => parent,
    // What another member has passed on keeps its id, so that both tell of the same request.
    genReqId: (raw) => passedOf(raw)?.requestId ?? `${boot}-${(++requests).toString(36)}`,
    schemaController: lateCompilers(),
    ajv: {
      customOptions: {
        coerceTypes: false,
        removeAdditional: false,
        useDefaults: false,
        allErrors: false,
        verbose: true,
      },
    },
    schemaErrorFormatter: (violations, where) => new Error(violationText(violations, where)),
    // A URL that cannot be decoded reaches no hook: the gates are asked here, so that it tells a stranger nothing.
    frameworkErrors(error, request, reply) {
      reply.header('x-request-id', request.id)
      const refusal: ApiError | undefined = gates().judge(request as FastifyRequest, reply)
      const answered = answerError(refusal ?? error, request as FastifyRequest, reply)
      unrouted?.(request as FastifyRequest, reply)
      return answered
    },
  })
  app.setErrorHandler<Error & ApiError>(answerError)
  app.setNotFoundHandler((_request, reply) => reply.code(404).send({ error: 'no such path' }))
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) => {
    try {
      done(null, parseBody(textOf(body as Buffer)))
    } catch (error) {
      done(error as Error, undefined)
    }
  })
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id).header('x-content-type-options', 'nosniff')
    if (request.method === 'DELETE' || request.method === 'GET' || request.method === 'HEAD') ignoreBody(request)
    else if (request.headers['content-type'] !== undefined) forgetType(request)
    done()
  })
  return app
}

/** Hooks that come after the gates. */
export function addConventions(app: FastifyInstance): void {
  app.addHook('onRequest', (request, _reply, done) => done(unreadable(request) ?? unkeptPromise(request)))
  app.addHook('onRoute', (route) => {
    const body = route.schema?.body as { type?: string; properties?: object } | undefined
    const takesBody = [route.method].flat().some((method) => method === 'POST' || method === 'PUT')
    if (!takesBody || (body !== undefined && body.type !== 'object')) return
    const known = new Set(Object.keys(body?.properties ?? {}))
    const strict = route.config?.strict === true
    const own = route.preValidation === undefined ? [] : [route.preValidation].flat()
    route.preValidation = [
      (request, reply, done) => {
        // Without a body and without a Content-Type no parser runs, and nothing equals `{}` (D11).
        if (request.body === undefined) request.body = {}
        const [first, ...others] = unknownKeys(request.body, known)
        if (first === undefined) done()
        else if (strict) done(badRequest(`unrecognised key: ${first.slice(0, 64)}`))
        else {
          reply.header('x-ignored-fields', [first, ...others].slice(0, 20).map(headerText).join(','))
          done()
        }
      },
      ...own,
    ]
  })
  // With a callback, because a promise per answer would cost more than most answers.
  app.addHook('onSend', (request, reply, payload, done) => {
    const text = typeof payload === 'string' ? payload : undefined
    // A long list comes in pieces (list.ts).
    const pieces = payload instanceof Readable ? payload : undefined
    if ((text === undefined && pieces === undefined) || !isJson(reply.getHeader('content-type'))) {
      done(null, payload)
      return
    }
    reply.header('vary', 'accept-encoding')
    // No character takes more than three bytes, so most answers need not be measured.
    const small = text !== undefined && (text.length * 3 < COMPRESS_FROM || Buffer.byteLength(text) < COMPRESS_FROM)
    if (small || !acceptsGzip(request.headers['accept-encoding'])) {
      done(null, payload)
      return
    }
    reply.header('content-encoding', 'gzip').removeHeader('content-length')
    const tag = reply.getHeader('etag')
    if (typeof tag === 'string') reply.header('etag', gzippedTag(tag))
    if (text !== undefined) gzip(text, done)
    // What goes wrong in the source or the client's going away ends the compressed stream, which the answer follows.
    else done(null, pieces && pipeline(pieces, createGzip(), () => {}))
  })
}

/** @throws ApiError 400: decoding would put replacement characters in the place of what was meant */
function textOf(body: Buffer): string {
  if (!isUtf8(body)) throw badRequest('body is not valid UTF-8')
  return body.toString('utf8')
}

/** RFC 3986 §2.1: only ASCII stands in a URL, and what is encoded in it is UTF-8. The router has decoded the path. */
function unreadable({ url }: FastifyRequest): ApiError | undefined {
  for (let at = 0; at < url.length; at++) {
    if (url.charCodeAt(at) > 0x7e)
      return badRequest('the URL holds characters other than ASCII: percent-encode them as UTF-8')
  }
  const query = url.indexOf('?')
  if (query < 0 || !url.includes('%', query)) return undefined
  try {
    decodeURIComponent(url.slice(query))
    return undefined
  } catch {
    return badRequest('the query holds a percent-encoding that is no UTF-8')
  }
}

/**
 * Headers and a parameter by which other APIs promise that a change is tried only, taken back by itself, or made once. Whoever sends one relies on
 * that: to carry out the change all the same would be worse than to refuse it.
 */
const PROMISES = new Map([
  ['x-confirm-within', 'X-Confirm-Within is not implemented: a change stays until you take it back'],
  ['x-dry-run', 'X-Dry-Run is not implemented: every change is carried out'],
  ['idempotency-key', 'Idempotency-Key is not implemented: a call that is repeated is carried out again'],
])
const DRY_RUN = 'dry_run is not implemented: every change is carried out'

function unkeptPromise({ headers, query }: FastifyRequest): ApiError | undefined {
  for (const [name, why] of PROMISES) if (headers[name] !== undefined) return notImplemented(why)
  return Object.hasOwn(query as object, 'dry_run') ? notImplemented(DRY_RUN) : undefined
}

/** D12: without a body its type says nothing. */
function forgetType({ raw: { headers } }: FastifyRequest): void {
  const length = headers['content-length']
  if (headers['transfer-encoding'] === undefined && (length === undefined || Number(length) === 0)) {
    delete headers['content-type']
  }
}

/** D12: a body on a read or a deletion has no meaning and no consequence. */
function ignoreBody(request: FastifyRequest): void {
  const { headers } = request.raw
  if (headers['content-length'] === undefined && headers['transfer-encoding'] === undefined) return
  delete headers['content-type']
  delete headers['content-length']
  delete headers['transfer-encoding']
}

/** Keys that the route does not know. */
function unknownKeys(body: unknown, known: ReadonlySet<string>): string[] {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return []
  return Object.keys(body).filter((key) => !known.has(key))
}

const headerText = (key: string) => key.replace(/[^\x21-\x7e]|,/g, '?').slice(0, 64)

const isJson = (type: unknown) => typeof type === 'string' && type.startsWith('application/json')

/** RFC 9110 §12.5.3: gzip is named and its weight is not 0. */
export function acceptsGzip(header: string | undefined): boolean {
  if (header === undefined) return false
  return header.split(',').some((part) => {
    const [coding = '', ...parameters] = part.trim().toLowerCase().split(';')
    return coding.trim() === 'gzip' && !parameters.some((parameter) => /^\s*q=0(\.0*)?\s*$/.test(parameter))
  })
}
