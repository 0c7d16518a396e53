/** The gates in front of the two transports that take the node token and nothing else: gRPC health and the stream. */
import type { Agent } from '../../app.ts'
import { type ApiError, forbidden, unauthorized } from '../../errors.ts'
import { isNodeToken } from '../../gates/bearer.ts'
import type { Client } from '../../gates/client.ts'

/** The refusal that wins, or nothing when the caller may pass. To be asked once per call or handshake: it charges. */
export type Admission = (client: Client, authorization: string | undefined) => ApiError | undefined

/**
 * Same order as REST (D1): allow-list, block, rate, token. What is presented and is not the node token counts as a
 * failed authentication, and so do operator and tenant keys, which are good on REST only (D36).
 */
export function admission({ gates, credentials }: Pick<Agent, 'gates' | 'credentials'>): Admission {
  return ({ address, key }, authorization) => {
    if (!gates.admits(address)) return NOT_ALLOWED
    const refusal = gates.lockout.refusal(key) ?? gates.rate.take(key)
    if (refusal !== undefined) return refusal
    if (isNodeToken(credentials, authorization)) return undefined
    if (authorization !== undefined) gates.lockout.fail(key)
    return unauthorized()
  }
}

const NOT_ALLOWED = forbidden('SOURCE_NOT_ALLOWED', 'forbidden: source address not allowed')
