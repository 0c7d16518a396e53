/** What an installer decides before the first start: `STRATUM_API_TOKEN`, which is `auto`, `off` or a token (D29). */
import { join } from 'node:path'
import { Value } from 'typebox/value'
import type { Places } from './environment.ts'
import { hashSecret } from './gates/bearer.ts'
import { lockState } from './state/lock.ts'
import { openOverrides } from './state/overrides.ts'
import { newToken, Token } from './transport/control.ts'

export interface Enabled {
  /** Whether REST, gRPC health and event stream are on from the next start. */
  on: boolean
  /** Present when it was made now: it is shown this once and kept nowhere. */
  minted?: string
}

/** An agent that is just ending has this long. */
const PATIENCE_MS = 10_000

/**
 * Turns the API on or off for the next start of the agent. `auto` keeps a token that is there; `off` keeps it too, for
 * whoever turns the API on later. @throws Error when the word cannot be used, or an agent runs, whose file this is then
 */
export async function enable({ stateDir }: Pick<Places, 'stateDir'>, wanted: string): Promise<Enabled> {
  const isToken = wanted !== 'auto' && wanted !== 'off'
  if (isToken && !Value.Check(Token, wanted)) {
    // Never the value: it may be a secret with one character too many.
    throw new Error('STRATUM_API_TOKEN must be auto, off, or a token of 32 to 256 characters A-Z a-z 0-9 . _ ~ + / = -')
  }
  const lock = await lockState(stateDir, PATIENCE_MS)
  try {
    const overrides = openOverrides(join(stateDir, 'overrides.json'))
    const known = overrides.read().tokenHash
    const minted = wanted === 'auto' && known === undefined ? newToken() : undefined
    const token = isToken ? wanted : minted
    const tokenHash = token === undefined ? known : hashSecret(token).toString('hex')
    const on = wanted !== 'off'
    if (tokenHash !== known || overrides.read().rest !== on) {
      overrides.change((content) => {
        content.rest = on
        if (tokenHash !== undefined) content.tokenHash = tokenHash
      })
    }
    return { on, ...(minted !== undefined && { minted }) }
  } finally {
    lock.release()
  }
}
