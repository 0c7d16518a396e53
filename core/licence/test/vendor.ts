/** A vendor, a node and a clock for licence tests. */
import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { type Licence, type LicencePayload, parseLicence, signLicence } from '../file.ts'
import { type InstalledLicence, type LicenceOptions, openLicence } from '../installed.ts'
import type { LicenceMarks } from '../marks.ts'
import { CAPABILITIES } from '../plan.ts'

export const DAY_MS = 86_400_000
export const HARDWARE = '0123456789abcdef0123456789abcdef'
/** When the licences of `payload` end. */
export const END = Date.UTC(2030, 0, 31)

export const vendorKeys = () => generateKeyPairSync('ed25519')

/** A year's licence with every feature, until END. */
export function payload(changes: Partial<LicencePayload> = {}): LicencePayload {
  return {
    serial_number: 'LIC-1',
    plan: 'fabric',
    release_channel: 'stable',
    valid_from: '2029-01-31T00:00:00Z',
    valid_until: '2030-01-31T00:00:00Z',
    max_bandwidth_gbps: 0,
    features: Object.fromEntries(CAPABILITIES.map((name) => [name, true])),
    ...changes,
  }
}

export function licence(changes: Partial<LicencePayload> = {}): Licence {
  const { publicKey, privateKey } = vendorKeys()
  return parseLicence(signLicence(payload(changes), privateKey), [publicKey])
}

export function scratch(t: Pick<Test, 'teardown'>): string {
  const dir = mkdtempSync(join(tmpdir(), 'stratum-licence-'))
  t.teardown(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

export interface Node {
  readonly dir: string
  readonly file: string
  readonly evaluationKey: string
  /** What `saveMarks` stored last, and how often. */
  readonly stored: { marks: LicenceMarks; saves: number; failing: boolean }
  readonly clock: { ms: number }
  /** A licence file signed by the vendor that the node trusts. */
  sign(changes?: Partial<LicencePayload>): string
  /** As the agent does at start: a restart is a second call. */
  start(changes?: Partial<LicenceOptions>): InstalledLicence
}

/** A node without a licence, 100 days before END, that trusts one vendor. */
export function node(t: Pick<Test, 'teardown'>): Node {
  const dir = scratch(t)
  const vendor = vendorKeys()
  const trusted = join(dir, 'vendor.pub')
  writeFileSync(trusted, vendor.publicKey.export({ type: 'spki', format: 'pem' }))
  const stored = { marks: {} as LicenceMarks, saves: 0, failing: false }
  const clock = { ms: END - 100 * DAY_MS }
  const file = join(dir, 'state', 'license.json')
  const evaluationKey = join(dir, 'state', 'evaluation.pem')
  const start = (changes: Partial<LicenceOptions> = {}) =>
    openLicence({
      file,
      trustedKeys: () => [trusted],
      evaluationKey,
      now: () => new Date(clock.ms),
      hardwareId: HARDWARE,
      loadMarks: () => stored.marks,
      saveMarks: async (marks) => {
        if (stored.failing) throw new Error('disk full')
        stored.marks = marks
        stored.saves++
      },
      ...changes,
    })
  const sign = (changes: Partial<LicencePayload> = {}) => signLicence(payload(changes), vendor.privateKey)
  return { dir, file, evaluationKey, stored, clock, sign, start }
}
