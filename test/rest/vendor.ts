/** A licence vendor that a test's agent trusts, and licences of it in every state. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type LicencePayload, signLicence } from '../../core/licence/file.ts'
import { DAY_MS, END, payload, vendorKeys } from '../../core/licence/test/vendor.ts'
import { type BuildAgentOptions, type BuiltAgent, scratch } from '../build.ts'
import type { Scope } from '../netns.ts'
import { CLUSTER_ROUTES, GATED_ROUTES, type Hit, probe } from './areas.ts'
import { ask, openAgent } from './ask.ts'

export { DAY_MS, END }

const P = '/api/v1'

export interface Vendor {
  /** Configuration under which an agent believes this vendor. */
  config: { license_trusted_keys: string }
  /** The text of a licence until END with every feature, changed by `changes`. */
  sign(changes?: Partial<LicencePayload>): string
}

export function vendor(t: Scope): Vendor {
  const { publicKey, privateKey } = vendorKeys()
  const file = join(scratch(t), 'vendor.pem')
  writeFileSync(file, publicKey.export({ type: 'spki', format: 'pem' }))
  return {
    config: { license_trusted_keys: file },
    sign: (changes = {}) => signLicence(payload(changes), privateKey),
  }
}

/** No feature at all. */
export const BARE: Partial<LicencePayload> = { features: {} }

export interface Licensed extends BuiltAgent, Vendor {
  clock: { ms: number }
  hits: Hit[]
  view(): Promise<Record<string, unknown>>
}

/** An agent without a licence, 100 days before END, with every gated path and the cluster. */
export async function unlicensed(t: Scope, options: BuildAgentOptions = {}): Promise<Licensed> {
  const { config, sign } = vendor(t)
  const clock = { ms: END - 100 * DAY_MS }
  const area = probe('gated', ['/gated'], [...GATED_ROUTES, ...CLUSTER_ROUTES])
  const built = await openAgent(t, {
    licensed: false,
    now: () => new Date(clock.ms),
    config,
    extraAreas: [area.plugin],
    ...options,
  })
  const view = async () => (await ask(built.agent, 'GET', `${P}/license`)).body
  return { ...built, config, sign, clock, hits: area.hits, view }
}

export const filled = (path: string) => `${P}${path.replace(/:[a-z]+/g, 'x1')}`
