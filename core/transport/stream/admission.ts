/** The gates in front of the two transports that take the node token and nothing else: gRPC health and the stream. */
import type { Agent } from '../../agent.ts'
import { type ApiError, forbidden, unauthorized } from '../../errors.ts'
import { isNodeToken } from '../../gates/bearer.ts'
import type { Client } from '../../gates/client.ts'
import type { GateName } from '../../gates/index.ts'
import type { Transport } from '../../gates/lockout.ts'

/** The refusal that wins, or nothing when the caller may pass. To be asked once per call or handshake: it charges. */
export type Admission = (client: Client, authorization: string | undefined) => ApiError | undefined

/**
 * Same order as REST (D1): allow-list, block, rate, token. What is presented and is not the node token counts as a
 * failed authentication, and so do operator and tenant keys, which are good on REST only (D36).
 */
export function admission(
  { gates, credentials }: Pick<Agent, 'gates' | 'credentials'>,
  transport: Transport,
): Admission {
  return ({ address, key }, authorization) => {
    const refuse = (gate: GateName, refusal: ApiError) => {
      gates.refused(gate)
      return refusal
    }
    if (!gates.admits(address)) return refuse('allow_list', NOT_ALLOWED)
    const blocked = gates.lockout.refusal(key)
    if (blocked !== undefined) return refuse('lockout', blocked)
    const tooFast = gates.rate.take(key)
    if (tooFast !== undefined) return refuse('rate', tooFast)
    if (isNodeToken(credentials, authorization)) {
      gates.heard(key, 'token')
      return undefined
    }
    if (authorization !== undefined) gates.lockout.fail(key, transport)
    return refuse('bearer', unauthorized())
  }
}

const NOT_ALLOWED = forbidden('SOURCE_NOT_ALLOWED', 'forbidden: source address not allowed')
