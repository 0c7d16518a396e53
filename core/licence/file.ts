/**
 * The licence file: `{"payload": base64(JSON), "signature": base64(Ed25519 over the payload's bytes)}` (D24, RFC 8032).
 * Nothing of the payload is read before its signature is proven.
 */
import { type KeyObject, sign, verify } from 'node:crypto'
import { Ajv, type ErrorObject } from 'ajv'
import { type Static, Type } from 'typebox'
import { IsDateTime } from 'typebox/format'
import { ApiError } from '../errors.ts'
import { CAPABILITIES, type Capability } from './plan.ts'

/** Largest licence file that is read, in bytes. */
export const LICENCE_MAX_BYTES = 64 * 1024

const Label = Type.String({ minLength: 1, maxLength: 128, pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]*$' })
const Time = Type.String({ maxLength: 40, description: 'RFC 3339' })

/** What the vendor signs. Unknown keys are ignored, so that a newer vendor tool still serves an older node. */
export const LicencePayload = Type.Object({
  serial_number: Label,
  plan: Label,
  release_channel: Label,
  valid_from: Time,
  valid_until: Time,
  /** 0 = uncapped. */
  max_bandwidth_gbps: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
  /** Capability name → granted; a missing name is not granted. */
  features: Type.Record(Type.String(), Type.Boolean()),
  /** As `hardwareId()` gives it; absent = valid on any hardware. */
  hardware_id: Type.Optional(Label),
})
export type LicencePayload = Static<typeof LicencePayload>

const Envelope = Type.Object({ payload: Type.String(), signature: Type.String() })

const ajv = new Ajv()
const isEnvelope = ajv.compile<Static<typeof Envelope>>(Envelope)
const isPayload = ajv.compile<LicencePayload>(LicencePayload)

/** A licence whose signature and fields were checked. */
export interface Licence {
  readonly serialNumber: string
  readonly plan: string
  readonly releaseChannel: string
  readonly validFrom: Date
  readonly validUntil: Date
  /** 0 = uncapped. */
  readonly maxBandwidthGbps: number
  /** All nine names. */
  readonly features: Readonly<Record<Capability, boolean>>
  readonly hardwareId?: string
}

export type LicenceErrorCode =
  | 'LICENCE_MISSING'
  | 'LICENCE_UNREADABLE'
  | 'LICENCE_TOO_LARGE'
  | 'LICENCE_MALFORMED'
  | 'LICENCE_SIGNATURE'
  | 'LICENCE_FIELD'
  | 'LICENCE_KEY'
  | 'LICENCE_NOT_YET_VALID'
  | 'LICENCE_EVALUATION'

/** Why a licence is not accepted; the message is for the operator. */
export class LicenceError extends ApiError {
  declare readonly code: LicenceErrorCode

  constructor(code: LicenceErrorCode, message: string, cause?: unknown) {
    super(400, code, message, {}, cause)
  }
}

/**
 * Checks signature, then fields.
 * @param text content of a licence file
 * @param trustedKeys Ed25519 public keys; any one of them may have signed
 * @throws LicenceError
 */
export function parseLicence(text: string, trustedKeys: readonly KeyObject[]): Licence {
  return readPayload(openEnvelope(text, trustedKeys).payload)
}

/** The payload's bytes and the key of `trustedKeys` that signed them. @throws LicenceError */
export function openEnvelope(
  text: string,
  trustedKeys: readonly KeyObject[],
): { payload: Uint8Array; signer: KeyObject } {
  if (Buffer.byteLength(text) > LICENCE_MAX_BYTES) {
    throw new LicenceError('LICENCE_TOO_LARGE', 'not a licence file: it is larger than 64 KiB')
  }
  const envelope = parseJson(text, 'not a licence file: it is not JSON')
  if (!isEnvelope(envelope)) {
    throw new LicenceError('LICENCE_MALFORMED', `not a licence file: ${fieldProblem(isEnvelope.errors, 'it')}`)
  }
  const payload = decodeBase64(envelope.payload, 'payload')
  const signature = decodeBase64(envelope.signature, 'signature')
  const signer = trustedKeys.find((key) => key.asymmetricKeyType === 'ed25519' && verify(null, payload, key, signature))
  if (signer === undefined) {
    throw new LicenceError(
      'LICENCE_SIGNATURE',
      'bad licence signature: it was changed, or is not signed by a key that this node trusts',
    )
  }
  return { payload, signer }
}

/** The fields of a payload whose signature was checked. @throws LicenceError naming the field */
export function readPayload(bytes: Uint8Array): Licence {
  const payload = checkPayload(parseJson(decodeUtf8(bytes), 'the licence payload is not JSON'))
  const granted = new Map(Object.entries(payload.features))
  return {
    serialNumber: payload.serial_number,
    plan: payload.plan,
    releaseChannel: payload.release_channel,
    validFrom: parseTime('valid_from', payload.valid_from),
    validUntil: parseTime('valid_until', payload.valid_until),
    maxBandwidthGbps: payload.max_bandwidth_gbps,
    // fromEntries widens the keys to string; they are exactly the nine capabilities.
    features: Object.fromEntries(CAPABILITIES.map((name) => [name, granted.get(name) === true])) as Record<
      Capability,
      boolean
    >,
    ...(payload.hardware_id === undefined ? {} : { hardwareId: payload.hardware_id }),
  }
}

/**
 * The text of a licence file. Refuses what a node would refuse.
 * @param privateKey Ed25519
 * @throws LicenceError
 */
export function signLicence(payload: LicencePayload, privateKey: KeyObject): string {
  if (privateKey.type !== 'private' || privateKey.asymmetricKeyType !== 'ed25519') {
    throw new LicenceError('LICENCE_KEY', 'the signing key must be an Ed25519 private key; make one with keygen')
  }
  const bytes = Buffer.from(JSON.stringify(checkPayload(payload)))
  const signature = sign(null, bytes, privateKey)
  return `${JSON.stringify({ payload: bytes.toString('base64'), signature: signature.toString('base64') }, null, 2)}\n`
}

function checkPayload(payload: unknown): LicencePayload {
  if (!isPayload(payload)) {
    throw new LicenceError('LICENCE_FIELD', `licence field ${fieldProblem(isPayload.errors, 'payload')}`)
  }
  if (parseTime('valid_until', payload.valid_until) <= parseTime('valid_from', payload.valid_from)) {
    throw new LicenceError('LICENCE_FIELD', 'licence field valid_until must be later than valid_from')
  }
  return payload
}

function parseTime(field: string, text: string): Date {
  // Date alone would turn February 30th into March; the check alone would pass a leap second, which Date cannot hold.
  const time = IsDateTime(text) ? new Date(text) : new Date(Number.NaN)
  const year = time.getUTCFullYear()
  if (!(year >= 1970 && year <= 9999)) {
    throw new LicenceError('LICENCE_FIELD', `licence field ${field} must be an RFC 3339 time, 2030-01-31T00:00:00Z`)
  }
  return time
}

function parseJson(text: string, problem: string): unknown {
  try {
    return JSON.parse(text.trim())
  } catch (error) {
    throw new LicenceError('LICENCE_MALFORMED', problem, error)
  }
}

/** Accepts only the one canonical spelling (RFC 4648 §3.5), which Buffer alone does not insist on. */
function decodeBase64(text: string, field: string): Uint8Array {
  const bytes = Buffer.from(text, 'base64')
  if (bytes.toString('base64') !== text) {
    throw new LicenceError('LICENCE_MALFORMED', `not a licence file: ${field} is not base64`)
  }
  return bytes
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    throw new LicenceError('LICENCE_MALFORMED', 'the licence payload is not UTF-8', error)
  }
}

/** `valid_until is missing`, `features.dns must be boolean`: of the first problem that ajv found. */
function fieldProblem(errors: readonly ErrorObject[] | null | undefined, whole: string): string {
  const error = errors?.[0]
  if (error === undefined) return `${whole} is invalid`
  if (error.keyword === 'required') return `${error.params.missingProperty} is missing`
  return `${error.instancePath.slice(1).replaceAll('/', '.') || whole} ${error.message}`
}
