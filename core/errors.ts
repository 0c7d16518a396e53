/** Errors that the API answers with. Every one has a status, a stable code and a sentence the operator can act on. */

export class ApiError extends Error {
  readonly status: number
  readonly code: string
  readonly headers: Readonly<Record<string, string>>

  constructor(status: number, code: string, message: string, headers: Record<string, string> = {}, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.status = status
    this.code = code
    this.headers = headers
  }
}

export const badRequest = (message: string) => new ApiError(400, 'BAD_REQUEST', message)
export const unauthorized = () => new ApiError(401, 'UNAUTHORIZED', 'unauthorized')
export const forbidden = (code: string, message: string) => new ApiError(403, code, message)
export const notFound = (thing: string, id: string | number) =>
  new ApiError(404, 'NOT_FOUND', `${thing} ${id} not found`)
/** A 404 of a part: `lacks('bridge br0', 'port tap1')` is «bridge br0 has no port tap1». */
export const lacks = (whole: string, part: string) => new ApiError(404, 'NOT_FOUND', `${whole} has no ${part}`)
/** What is asked for is not there, and the sentence ends in what to do. */
export const notImplemented = (why: string) => new ApiError(501, 'NOT_IMPLEMENTED', `${why}; leave it out`)
export const noSuchPath = () => new ApiError(404, 'NO_SUCH_PATH', 'no such path')
export const conflict = (code: string, message: string) => new ApiError(409, code, message)
/** `<thing> already exists` (D8). */
export const alreadyExists = (thing: string) => conflict('ALREADY_EXISTS', `${thing} already exists`)
/** `limit reached: <what> (<n>)` (D20), and `why` where it is not the one that is configured. */
export const limitReached = (what: string, limit: number, why?: string) =>
  conflict('LIMIT_REACHED', `limit reached: ${what} (${limit})${why === undefined ? '' : `: ${why}`}`)
/** `<name> service not available`: the subsystem is off on this node. `reason` goes into REASON_FIELD. */
export const notAvailable = (name: string, reason?: string) =>
  new ApiError(
    503,
    'NOT_AVAILABLE',
    `${name} service not available`,
    reason === undefined ? {} : { [REASON_FIELD]: fieldText(reason) },
  )
/** The field of a 503 that says why a subsystem is off: its body says no more than that it is. */
export const REASON_FIELD = 'stratum-reason'
const REASON_LENGTH = 256
/** As the value of a field may be sent (RFC 9110 §5.5): printable ASCII, and no longer than a line. */
const fieldText = (text: string) =>
  text
    .replace(/[^\x20-\x7e]+/g, ' ')
    .trim()
    .slice(0, REASON_LENGTH)
export const tooMany = (code: string, message: string, retryAfterSeconds: number) =>
  new ApiError(429, code, message, { 'retry-after': String(Math.max(1, Math.ceil(retryAfterSeconds))) })

/** What cannot be answered while the agent starts or stops. `doing`: what it does. */
export const tryAgain = (doing: string): ApiError =>
  new ApiError(503, 'STARTING', `${doing}; try again`, { 'retry-after': '1' })
