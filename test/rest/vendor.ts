/** A licence vendor that a test's agent trusts, and licences of it in every state. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type LicencePayload, signLicence } from '../../core/licence/file.ts'
import { payload, vendorKeys } from '../../core/licence/test/vendor.ts'
import { scratch } from '../build.ts'
import type { Scope } from '../netns.ts'

export { DAY_MS, END } from '../../core/licence/test/vendor.ts'

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
