/** Which licences this node believes: the vendor's, and its own evaluation. Reads key files; changes nothing. */
import { createPublicKey, type KeyObject } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { checkEvaluation, readEvaluationKey } from './evaluation.ts'
import { LICENCE_MAX_BYTES, type Licence, LicenceError, openEnvelope, readPayload } from './file.ts'

export interface Trust {
  /** Paths of the vendor's public keys: PEM, Ed25519, one a file. */
  readonly vendorKeys: readonly string[]
  /** Path of the node's own evaluation key; need not exist. */
  readonly evaluationKey: string
  /** When the node's evaluation began. */
  readonly evaluationUsedAt: Date | undefined
  /** Of this machine; '' where it has none. */
  readonly hardwareId: string
}

/** The licence in `text`. @throws LicenceError; for a bad signature it also names the keys that could not be used */
export function verifyLicence(text: string, trust: Trust): Licence {
  const problems: string[] = []
  const vendor = trust.vendorKeys.map((path) => readVendorKey(path, problems)).filter((key) => key !== undefined)
  const own = readOwnKey(trust.evaluationKey, problems)
  if (trust.vendorKeys.length === 0) problems.push('no vendor key is trusted yet: set license_trusted_keys')
  try {
    const { payload, signer } = openEnvelope(text, own === undefined ? vendor : [...vendor, own])
    const licence = readPayload(payload)
    if (signer === own) checkEvaluation(licence, trust.evaluationUsedAt, trust.hardwareId)
    return licence
  } catch (error) {
    if (!(error instanceof LicenceError) || error.code !== 'LICENCE_SIGNATURE' || problems.length === 0) throw error
    throw new LicenceError(error.code, [error.message, ...problems].join('; '), error)
  }
}

/** The licence in the file `path`. @throws LicenceError, `LICENCE_MISSING` when there is no such file */
export function loadLicence(path: string, trust: Trust): Licence {
  return verifyLicence(readLicenceFile(path), trust)
}

/** One bad file must not take the other keys' licences away: it is reported, not thrown. */
function readVendorKey(path: string, problems: string[]): KeyObject | undefined {
  try {
    const key = createPublicKey(readFileSync(path, 'utf8'))
    if (key.asymmetricKeyType === 'ed25519') return key
    problems.push(`trusted key ${path} is not an Ed25519 key`)
  } catch (error) {
    problems.push(`trusted key ${path} cannot be read: ${error instanceof Error ? error.message : error}`)
  }
  return undefined
}

function readOwnKey(path: string, problems: string[]): KeyObject | undefined {
  try {
    const key = readEvaluationKey(path)
    return key && createPublicKey(key)
  } catch (error) {
    problems.push(error instanceof Error ? error.message : String(error))
    return undefined
  }
}

function readLicenceFile(path: string): string {
  try {
    // Judged before it is read, so that a wrong file cannot fill the memory.
    if (statSync(path).size <= LICENCE_MAX_BYTES) return readFileSync(path, 'utf8')
  } catch (error) {
    // Errors of node:fs carry a code.
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') throw new LicenceError('LICENCE_MISSING', `no licence is installed (${path})`)
    throw new LicenceError('LICENCE_UNREADABLE', `the licence ${path} cannot be read: ${message}`, error)
  }
  throw new LicenceError('LICENCE_TOO_LARGE', `not a licence file: ${path} is larger than 64 KiB`)
}
