/**
 * Join codes: what an operator carries from a member to a node that shall be one. The members keep a digest of the secret; the
 * code also says which authorities the node may believe, so that the secret goes to nobody else.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { isIP } from 'node:net'
import { ApiError, badRequest, conflict, notFound } from '../../core/errors.ts'
import { hashSecret } from '../../core/gates/bearer.ts'
import type { Actor } from '../../core/state/events.ts'
import { absent, type EtcdRecord, put, type Records, remove, unchanged } from './engine.ts'
import { CODES, encode, partsOf } from './keys.ts'
import { fieldsIn, isTime } from './reading.ts'
import type { JoinCode } from './schemas.ts'

/** Codes that are over are listed so long, ms. */
const KEPT_MS = 7 * 86_400_000
const codeKey = (id: string) => CODES + encode(id)

/** What is printed, as base64 of JSON. */
export interface Code {
  cluster: string
  /** `address:port` of the members' doors, an IPv6 address in brackets. */
  addresses: string[]
  /** SHA-256 of the certificate of the first one's authority, `AA:BB:…`. */
  fingerprint: string
  /** Of those of the others, in their order. */
  other_fingerprints?: string[]
  secret: string
  /** RFC 3339. */
  expires_at: string
}

/** As the members keep it. */
interface Stored {
  id: string
  created_at: string
  expires_at: string
  created_by: string
  /** SHA-256 of the secret, hex. */
  hash: string
  revoked?: true
  /** Who came by it, and with which key: the same may ask again when the answer was lost, until it has come. */
  used?: { node: string; publicKey: string }
}

/** Answers whatever is wrong with a code, so that nobody learns which codes there are. */
export const notAccepted = (): ApiError =>
  new ApiError(
    403,
    'JOIN_CODE',
    'the join code is not accepted: make another with `stratumctl cluster join-code create`',
  )

export function viewOf({ id, created_at, expires_at, created_by, revoked, used }: Stored, now: Date): JoinCode {
  const over = Date.parse(expires_at) <= now.getTime()
  const state = used ? 'used' : revoked ? 'revoked' : over ? 'expired' : 'active'
  return { id, created_at, expires_at, created_by, state, ...(used && { used_by: used.node }) }
}

/** Makes a code; the secret is in what is returned and nowhere else. @throws ApiError 503 */
export async function makeCode(
  records: Records,
  by: Actor,
  { ttlSeconds, now }: { ttlSeconds: number; now: Date },
): Promise<{ record: JoinCode; secret: string }> {
  const id = `jc-${randomBytes(6).toString('hex')}`
  const secret = `${id}.${randomBytes(32).toString('base64url')}`
  const stored: Stored = {
    id,
    created_at: now.toISOString(),
    expires_at: new Date(now.getTime() + ttlSeconds * 1000).toISOString(),
    created_by: `${by.kind} ${by.label}`,
    hash: hashSecret(secret).toString('hex'),
  }
  await records.transact([absent(codeKey(id))], [put(codeKey(id), JSON.stringify(stored))])
  return { record: viewOf(stored, now), secret }
}

export async function listCodes(records: Records, now: Date): Promise<JoinCode[]> {
  const all = (await records.list(CODES)).map((record) => viewOf(read(record), now))
  return all.sort((a, b) => (a.created_at < b.created_at ? -1 : 1))
}

/** RFC 3339: when the last code is over by which a node may come now; '': there is none. @throws ApiError 503 */
export async function goodUntil(records: Records, now: Date): Promise<string> {
  const active = (await listCodes(records, now)).filter(({ state }) => state === 'active')
  return active.map(({ expires_at }) => expires_at).reduce((last, one) => (one > last ? one : last), '')
}

/**
 * From its answer on nobody comes by the code, not even when an admission fails that is on its way now and gives it back.
 * @throws ApiError 404; 409 when somebody has come by it, who stays; 503
 */
export async function revokeCode(records: Records, id: string): Promise<void> {
  const { used } = await change(records, id, (stored) => ({ ...stored, revoked: true }))
  if (used) throw conflict('USED', `join code ${id} was used by ${used.node}: remove that member instead`)
}

/** A node that is removed does not come back by the code that it came by. @throws ApiError 503 */
export async function revokeCodesOf(records: Records, node: string): Promise<void> {
  for (const record of await records.list(CODES)) {
    const { id, used, revoked } = read(record)
    if (used?.node === node && !revoked) await change(records, id, (stored) => ({ ...stored, revoked: true }))
  }
}

/**
 * Revokes all codes by which somebody may come now, and resolves to their ids: one that was a member may have made some, also under another name.
 * @throws ApiError 503
 */
export async function revokeGood(records: Records, now: Date): Promise<string[]> {
  const good = (await listCodes(records, now)).filter(({ state }) => state === 'active')
  for (const { id } of good) await change(records, id, (stored) => ({ ...stored, revoked: true }))
  return good.map(({ id }) => id)
}

/**
 * Uses up the code that `secret` is of, for a node and its key. While that one is admitted and has not come (`pending`) it may
 * do so again with the same key: `first` is false then.
 * @throws ApiError 403 whatever is wrong with it; 503
 */
export async function useCode(
  records: Records,
  secret: string,
  who: { node: string; publicKey: string },
  { now, pending }: { now: Date; pending: boolean },
): Promise<{ code: JoinCode; first: boolean }> {
  const [, id] = /^(jc-[0-9a-f]{12})\.[A-Za-z0-9_-]{43}$/.exec(secret) ?? []
  const found = id === undefined ? undefined : await records.get(codeKey(id))
  const known = found && read(found)
  // Compared in any case, so that it takes as long to hear of an unknown id.
  const same = timingSafeEqual(Buffer.from(known?.hash ?? '0'.repeat(64), 'hex'), hashSecret(secret))
  if (!known || !same) throw notAccepted()
  let first = true
  const used = await change(records, known.id, (stored) => {
    first = stored.used === undefined
    const again = pending && stored.used?.node === who.node && stored.used.publicKey === who.publicKey
    if (Date.parse(stored.expires_at) <= now.getTime() || stored.revoked || (!first && !again)) throw notAccepted()
    return { ...stored, used: who }
  })
  return { code: viewOf(used, now), first }
}

/** Gives a used code back, when the node that came by it could not be admitted. */
export async function giveBack(records: Records, id: string): Promise<void> {
  await change(records, id, ({ used: _, ...stored }) => stored)
}

/** Forgets codes that have been over for a week. */
export async function forgetOld(records: Records, now: Date): Promise<void> {
  for (const record of await records.list(CODES)) {
    if (Date.parse(read(record).expires_at) > now.getTime() - KEPT_MS) continue
    await records.transact([unchanged(record.key, record.revision)], [remove(record.key)])
  }
}

/** What is no code, or that of another key, is an old one that was revoked. */
function read({ key, value }: EtcdRecord): Stored {
  const [id = ''] = partsOf(key, CODES)
  const { created_at, expires_at, created_by, hash, revoked, used } = fieldsIn(value) ?? {}
  const never = new Date(0).toISOString()
  const isWhole =
    isTime(created_at) && isTime(expires_at) && typeof created_by === 'string' && /^[0-9a-f]{64}$/.test(String(hash))
  if (!isWhole) return { id, created_at: never, expires_at: never, created_by: '', hash: '0'.repeat(64), revoked: true }
  const by = userIn(used)
  const rest = { ...(revoked !== undefined && { revoked: true as const }), ...(by && { used: by }) }
  return { id, created_at, expires_at, created_by, hash: String(hash), ...rest }
}

function userIn(used: unknown): Stored['used'] {
  const { node, publicKey } = (used ?? {}) as Record<string, unknown>
  return typeof node === 'string' && typeof publicKey === 'string' ? { node, publicKey } : undefined
}

/** Only when nobody else was first; then it is judged anew. */
async function change(records: Records, id: string, to: (stored: Stored) => Stored): Promise<Stored> {
  for (;;) {
    const found = await records.get(codeKey(id))
    if (found === undefined) throw notFound('join code', id)
    const next = to(read(found))
    const same = unchanged(found.key, found.revision)
    if (await records.transact([same], [put(found.key, JSON.stringify(next))])) return next
  }
}

export const encodeCode = (code: Code): string => Buffer.from(JSON.stringify(code)).toString('base64')

/** Reads a code as it was printed; blanks and line ends in it do not count. @throws ApiError 400 */
export function readCode(text: string, now: Date): Code {
  const code = parsed(text.replace(/\s+/g, ''))
  if (code === undefined)
    throw badRequest('code: this is no join code; copy all of what `cluster join-code create` printed')
  if (Date.parse(code.expires_at) <= now.getTime()) {
    throw badRequest(`code: it expired at ${code.expires_at} by the clock of this node; make another`)
  }
  return code
}

function parsed(text: string): Code | undefined {
  if (text.length > 16_384 || !/^[A-Za-z0-9+/]+=*$/.test(text)) return undefined
  let value: Record<string, unknown>
  try {
    value = JSON.parse(Buffer.from(text, 'base64').toString())
  } catch {
    return undefined
  }
  if (typeof value !== 'object' || value === null) return undefined
  const { cluster, addresses, fingerprint, other_fingerprints: others = [], secret, expires_at } = value
  const words = [cluster, fingerprint, secret, expires_at]
  if (!words.every((word): word is string => typeof word === 'string')) return undefined
  if (!Array.isArray(addresses) || addresses.length === 0 || addresses.length > 64) return undefined
  if (!addresses.every((one) => typeof one === 'string' && splitPlace(one) !== undefined)) return undefined
  if (!Array.isArray(others) || others.length > 64) return undefined
  if (![fingerprint, ...others].every((one) => /^([0-9A-F]{2}:){31}[0-9A-F]{2}$/.test(String(one)))) return undefined
  if (Number.isNaN(Date.parse(expires_at as string))) return undefined
  return value as unknown as Code
}

/** `192.0.2.1:7073`, `[2001:db8::1]:7073`. */
export const placeText = (address: string, port: number): string =>
  address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`

/** The reverse; undefined for what is none. */
export function splitPlace(text: string): { address: string; port: number } | undefined {
  const [, six, four, port] = /^(?:\[([0-9a-fA-F:.]{2,45})\]|([0-9.]{7,15})):([0-9]{1,5})$/.exec(text) ?? []
  const address = six ?? four ?? ''
  const number = Number(port)
  return isIP(address) !== 0 && number > 0 && number < 65_536 ? { address, port: number } : undefined
}
