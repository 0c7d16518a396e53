/**
 * The evaluation licence: signed by a key that the node makes for itself, so that a first run needs no vendor.
 * That key is trusted for one thing only: one licence of plan `evaluation`, within 30 days of the node's first.
 */
import { createPrivateKey, generateKeyPairSync, type KeyObject, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { writePrivateFile } from '../private-file.ts'
import { type Licence, LicenceError, type LicencePayload } from './file.ts'
import { CAPABILITIES } from './plan.ts'
import { rfc3339 } from './state.ts'

const EVALUATION_PLAN = 'evaluation'
const EVALUATION_MS = 30 * 86_400_000

/** Every feature, uncapped, for 30 days from `start` (whole seconds), on this machine only. */
export function evaluationPayload(start: Date, hardwareId: string): LicencePayload {
  return {
    serial_number: `EVAL-${randomBytes(6).toString('hex')}`,
    plan: EVALUATION_PLAN,
    release_channel: 'stable',
    valid_from: rfc3339(start),
    valid_until: rfc3339(new Date(start.getTime() + EVALUATION_MS)),
    max_bandwidth_gbps: 0,
    features: Object.fromEntries(CAPABILITIES.map((name) => [name, true])),
    ...(hardwareId === '' ? {} : { hardware_id: hardwareId }),
  }
}

/**
 * Refuses anything but the node's one evaluation.
 * @param licence signed by the node's own evaluation key
 * @param usedAt when the node's evaluation began; undefined = never
 * @throws LicenceError
 */
export function checkEvaluation(licence: Licence, usedAt: Date | undefined, hardwareId: string): void {
  if (licence.plan !== EVALUATION_PLAN) {
    throw refused(`this node's own key cannot sign for plan ${licence.plan}`)
  }
  // What this node makes names its hardware wherever there is an id of it.
  if (hardwareId !== '' && licence.hardwareId === undefined) throw refused('it names no hardware_id')
  if (usedAt === undefined) throw refused('this node has not begun its evaluation')
  const began = Math.min(licence.validFrom.getTime(), usedAt.getTime())
  if (licence.validUntil.getTime() > began + EVALUATION_MS) {
    throw refused('it lasts longer than 30 days from the first one of this node')
  }
}

function refused(why: string): LicenceError {
  return new LicenceError('LICENCE_EVALUATION', `not a valid evaluation licence: ${why}`)
}

/** The node's evaluation key, or undefined when it has none. @throws LicenceError when there is one that cannot be used */
export function readEvaluationKey(path: string): KeyObject | undefined {
  let pem: string
  try {
    pem = readFileSync(path, 'utf8')
  } catch (error) {
    // Errors of node:fs carry a code.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw unusableKey(path, error)
  }
  try {
    const key = createPrivateKey(pem)
    if (key.asymmetricKeyType === 'ed25519') return key
  } catch (error) {
    throw unusableKey(path, error)
  }
  throw unusableKey(path)
}

/** A new Ed25519 key in `path`, mode 0600. */
export function makeEvaluationKey(path: string): KeyObject {
  const { privateKey } = generateKeyPairSync('ed25519')
  writePrivateFile(path, privateKey.export({ type: 'pkcs8', format: 'pem' }).toString())
  return privateKey
}

function unusableKey(path: string, cause?: unknown): LicenceError {
  return new LicenceError('LICENCE_KEY', `the evaluation key ${path} cannot be used; remove it and try again`, cause)
}
