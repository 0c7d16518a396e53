/** Turns whatever went wrong into `{error}` with its status. What is not meant for the caller stays in the log. */
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { ApiError } from '../errors.ts'
import { describe, type Told, tooFewOrMany } from './words.ts'

interface Violation {
  keyword: string
  instancePath: string
  params: Record<string, unknown>
  /** The schema that was violated. */
  parentSchema?: Told | undefined
}

/**
 * One sentence for the first violation: `action is required`, `unrecognised key: foo`, `priority: must be a whole number`.
 * The validator's own words are for programmers and never shown.
 */
export function violationText(violations: readonly Violation[], where = 'body'): string {
  // Where one of several shapes is asked for, each tells what it lacks, and then the whole tells that none fits.
  const told = violations.find(({ keyword }) => keyword === 'anyOf') ?? violations[0]
  if (told === undefined) return `${where}: cannot be used`
  const { keyword, params, parentSchema = {} } = told
  const path = told.instancePath.slice(1).replaceAll('/', '.').replaceAll('~1', '/').replaceAll('~0', '~')
  const at = (key: unknown) => (path === '' ? String(key) : `${path}.${String(key)}`)
  if (keyword === 'required') return `${at(params.missingProperty)} is required`
  if (keyword === 'additionalProperties') return `unrecognised key: ${at(params.additionalProperty).slice(0, 64)}`
  if (keyword === 'not') return `${path || where}: this word is reserved; choose another`
  return `${path || where}: ${tooFewOrMany(keyword, parentSchema) ?? `must be ${describe(parentSchema)}`}`
}

function asApiError(error: unknown): ApiError | undefined {
  if (error instanceof ApiError) return error
  if (!(error instanceof Error)) return undefined
  const { code, statusCode = 500 } = error as FastifyError
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') return new ApiError(413, code, 'body over 1 MiB')
  if (code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE') {
    return new ApiError(415, code, 'Content-Type must be application/json')
  }
  const refused = statusCode >= 400 && statusCode < 500
  return refused ? new ApiError(statusCode, code ?? 'BAD_REQUEST', error.message) : undefined
}

/** Fastify's error handler, also used for what fails before routing. */
export function answerError(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const known = asApiError(error)
  // A shape that a route declares for a status is its own; refusals look the same everywhere.
  reply.serializer(JSON.stringify)
  if (known === undefined) {
    request.log.error({ err: error, request_id: request.id }, 'a request failed')
    return reply.code(500).type('application/json; charset=utf-8').send({ error: 'internal error' })
  }
  if (known.status >= 500) request.log.warn({ code: known.code, request_id: request.id }, known.message)
  return reply
    .code(known.status)
    .headers(known.headers)
    .type('application/json; charset=utf-8')
    .send({ error: known.message })
}
