import { hash as digest, timingSafeEqual } from 'node:crypto'
import { tryAgain, unauthorized } from '../errors.ts'
import type { Caller, Gate } from './gate.ts'
import type { Lockout } from './lockout.ts'

/** Finds the caller of a key `<kind>_<id>_<secret>` by its id and compares the secret's hash; undefined = wrong. */
export type KeyResolver = (id: string, secret: string) => Caller | undefined

export interface Credentials {
  /** SHA-256 of the node API token, as configured when the agent started. */
  tokenHash: Buffer | undefined
  /** By the kind in front of the first underscore: `ok`, `tk`. */
  keys: Map<string, KeyResolver>
}

export const hashSecret = (secret: string): Buffer => digest('sha256', secret, 'buffer')

/** Compares in constant time. */
export function matches(hash: Buffer, secret: string): boolean {
  const presented = hashSecret(secret)
  return hash.length === presented.length && timingSafeEqual(hash, presented)
}

/** The node token behind an Authorization header, for the transports that accept nothing else. */
export function isNodeToken(credentials: Credentials, header: string | undefined): boolean {
  const token = bearerToken(header)
  return token !== undefined && credentials.tokenHash !== undefined && matches(credentials.tokenHash, token)
}

/** The token of `Authorization: Bearer <token>` (RFC 6750 §2.1); the scheme in any case (RFC 9110 §11.1). */
export function bearerToken(header: string | undefined): string | undefined {
  if (header === undefined || header.length > 512 || header.slice(0, 7).toLowerCase() !== 'bearer ') return undefined
  const token = header.slice(7).trim()
  return /^[A-Za-z0-9._~+/=-]+$/.test(token) ? token : undefined
}

const KEY = /^([a-z]{2})_([A-Za-z0-9-]{1,40})_(.+)$/

function resolve(credentials: Credentials, token: string): Caller | undefined {
  if (credentials.tokenHash !== undefined && matches(credentials.tokenHash, token)) return NODE
  const [, kind = '', id = '', secret = ''] = KEY.exec(token) ?? []
  return secret === '' ? undefined : credentials.keys.get(kind)?.(id, secret)
}

/** Whether an Authorization header bears a key of a kind that nobody resolves: of an area that has not started, or of none. */
export function isOfUnknownKind(credentials: Credentials, header: string | undefined): boolean {
  if (isNodeToken(credentials, header)) return false
  const [, kind] = KEY.exec(bearerToken(header) ?? '') ?? []
  return kind !== undefined && !credentials.keys.has(kind)
}

/**
 * What a credential would come to, without counting anything: `known` is accepted, `unclear` may be one by an area that has not
 * started, `wrong` will never be one, and neither is none.
 */
export function credentialOf(credentials: Credentials, header: string | undefined): 'known' | 'unclear' | 'wrong' {
  const token = bearerToken(header)
  if (token === undefined) return 'wrong'
  if (isOfUnknownKind(credentials, header)) return 'unclear'
  return resolve(credentials, token) === undefined ? 'wrong' : 'known'
}

const NODE: Caller = { kind: 'token', label: 'node' }
const CLI: Caller = { kind: 'cli', label: 'root' }

/**
 * D1 steps 4 and 5: public routes pass; all else needs a credential. Only a presented, wrong one counts as a failure. While
 * the agent starts nobody can say of every key whether it is wrong: such a key is refused and counts as nothing.
 */
export function bearer(credentials: Credentials, lockout: Lockout, starting: () => string | undefined): Gate {
  return (call) => {
    if (call.client.control) {
      call.caller = CLI
      return undefined
    }
    if (call.request.routeOptions.config.public === true) return undefined
    const header = call.request.headers.authorization
    const token = bearerToken(header)
    call.caller = token === undefined ? undefined : resolve(credentials, token)
    if (call.caller !== undefined) return undefined
    const doing = starting()
    if (doing !== undefined && isOfUnknownKind(credentials, header)) return tryAgain(doing)
    if (header !== undefined) lockout.fail(call.client.key, 'rest')
    return unauthorized()
  }
}
