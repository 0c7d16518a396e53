/** Scoped keys `tk_<id>_<secret>` (D28, D105): minting, revoking, and finding the caller behind one. */
import type { Change, Db, EventDraft } from '../../core/area.ts'
import { badRequest, forbidden, limitReached, notFound, unauthorized } from '../../core/errors.ts'
import { hashSecret, type KeyResolver, matches } from '../../core/gates/bearer.ts'
import type { Caller } from '../../core/gates/gate.ts'
import { admit, type Holdings } from '../../core/tenancy.ts'
import { queries } from './queries.ts'
import { findTenant, resourceOf } from './rules.ts'
import type { Key, KeyCreated, KeyInput } from './schemas.ts'
import type { KeyRow } from './tables.ts'

export const KIND = 'tk'
const TIMESTAMP = /^\d{4}-\d\d-\d\d[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$/
/** What the secret of an unknown key is compared with, so that it takes as long as that of a known one. */
const NOBODYS = hashSecret('')

/** The keys go with the tenant itself. */
export const holdings: Holdings = {
  uses: { keys: (db, tenant) => queries(db).keyCountOf.get({ tenant })?.count ?? 0 },
  remove: async () => ({ touch: [], events: [] }),
}

export interface Minting {
  id: string
  secret: string
  now: Date
  /** Kind and label of who asks. */
  by: string
  /** Most keys that a tenant can have on this node, whatever its quota says. */
  max: number
}

/** The key itself is in the result and nowhere else. @throws ApiError 404; 400 for a time that is none or past; 409 as `admit` does */
export function mintKey(
  tx: Db,
  tenant: string,
  { label, expires_at: expires }: KeyInput,
  { id, secret, now, by, max }: Minting,
): Change<KeyCreated> {
  findTenant(tx, tenant)
  const createdAt = now.toISOString()
  const expiresAt = expires ? readExpiry(expires, createdAt) : ''
  admit(tx, tenant, 'keys')
  if ((queries(tx).keyCountOf.get({ tenant })?.count ?? 0) >= max) throw limitReached('keys', max)
  const hash = hashSecret(secret).toString('hex')
  const row: KeyRow = { id, tenant, label, hash, createdAt, lastUsedAt: '', expiresAt, createdBy: by }
  queries(tx).addKey.run(row)
  const key = toKey(row)
  return {
    result: { status: 'created', key, secret: `${key.prefix}_${secret}` },
    touch: [],
    events: [keyCreated(row)],
  }
}

/** Makes sure that the key which asks for a change still counts when its turn has come. @throws ApiError 401, 403 */
export function certainCaller(tx: Db, caller: Caller | undefined, now: Date): void {
  if (caller?.kind !== 'tenant') return
  const row = queries(tx).holder.get({ id: caller.label })
  if (row === undefined || (row.expiresAt !== '' && row.expiresAt <= now.toISOString())) throw unauthorized()
  if (row.status === 'suspended') throw forbidden('TENANT_SUSPENDED', 'tenant suspended')
}

/** The last one too: the operator can always mint another. @throws ApiError 404 */
export function revokeKey(tx: Db, tenant: string, id: string): Change<{ status: 'revoked'; id: string }> {
  findTenant(tx, tenant)
  const row = queries(tx).key.get({ id, tenant })
  if (row === undefined) throw notFound('key', id.replace(/[^\x21-\x7e]/g, '?').slice(0, 64))
  queries(tx).removeKey.run({ id })
  return {
    result: { status: 'revoked', id },
    touch: [],
    events: [keyDeleted(row)],
  }
}

/**
 * Finds callers by their keys, among what is committed when they call: a revocation counts from its answer on, and so does
 * the end of the tenant. `noted` is told of each use with the time of the last one that was noted.
 */
export function resolverOf(read: Db, now: () => Date, noted: (row: KeyRow, at: string) => void): KeyResolver {
  return (id, secret) => {
    const row = queries(read).holder.get({ id })
    const right = matches(row === undefined ? NOBODYS : Buffer.from(row.hash, 'hex'), secret)
    const at = now().toISOString()
    if (row === undefined || !right || (row.expiresAt !== '' && row.expiresAt <= at)) return undefined
    noted(row, at)
    return { kind: 'tenant', label: id, tenantId: row.tenant, suspended: row.status === 'suspended' }
  }
}

export const toKey = (row: KeyRow): Key => ({
  id: row.id,
  tenant_id: row.tenant,
  label: row.label,
  prefix: `${KIND}_${row.id}`,
  created_at: row.createdAt,
  ...(row.lastUsedAt && { last_used_at: row.lastUsedAt }),
  ...(row.expiresAt && { expires_at: row.expiresAt }),
  created_by: row.createdBy,
})

export const keyCreated = (row: KeyRow): EventDraft => ({
  type: 'tenant_key.created',
  resource: keyResource(row),
  data: toKey(row),
})
export const keyDeleted = (row: Pick<KeyRow, 'id' | 'tenant'>): EventDraft => ({
  type: 'tenant_key.deleted',
  resource: keyResource(row),
  data: { id: row.id, tenant_id: row.tenant },
})

const keyResource = ({ tenant, id }: Pick<KeyRow, 'id' | 'tenant'>): string => `${resourceOf(tenant)}/keys/${id}`

/** A time after `now`, in the form of the rows. */
function readExpiry(text: string, now: string): string {
  const day = new Date(`${text.slice(0, 10)}T00:00:00Z`)
  const time = TIMESTAMP.test(text) ? new Date(text.toUpperCase()) : undefined
  // Date takes the 30th of February for the 2nd of March.
  const real = !Number.isNaN(day.getTime()) && day.toISOString().startsWith(text.slice(0, 10))
  if (time === undefined || Number.isNaN(time.getTime()) || !real) {
    throw badRequest('expires_at: must be an RFC 3339 time, 2030-01-31T00:00:00Z')
  }
  const at = time.toISOString()
  // Times are compared as text, which holds for years of four digits.
  if (!/^\d{4}-/.test(at) || at <= now) throw badRequest('expires_at: must be in the future, before the year 10000')
  return at
}
