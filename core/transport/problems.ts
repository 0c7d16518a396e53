/** Turns whatever went wrong into `{error}` with its status. What is not meant for the caller stays in the log. */
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { ApiError } from '../errors.ts'

interface Violation {
  keyword: string
  instancePath: string
  params: Record<string, unknown>
  message?: string | undefined
}

/** One sentence for the first schema violation: `action is required`, `unrecognised key: foo`, `priority: must be integer`. */
export function violationText(violations: readonly Violation[], where = 'body'): string {
  const [first] = violations
  if (first === undefined) return `${where} is invalid`
  const path = first.instancePath.slice(1).replaceAll('/', '.').replaceAll('~1', '/').replaceAll('~0', '~')
  const at = (key: unknown) => (path === '' ? String(key) : `${path}.${String(key)}`)
  switch (first.keyword) {
    case 'required':
      return `${at(first.params.missingProperty)} is required`
    case 'additionalProperties':
      return `unrecognised key: ${at(first.params.additionalProperty).slice(0, 64)}`
    case 'enum':
      return `${path || where}: must be one of ${(first.params.allowedValues as unknown[]).join(', ')}`
    default:
      return `${path || where}: ${first.message ?? 'is invalid'}`
  }
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
