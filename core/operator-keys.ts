/** Operator API keys `ok_<id>_<secret>`: minted and revoked over the control socket, kept as hashes. */
import { randomBytes } from 'node:crypto'
import { eq } from 'drizzle-orm'
import type { Change, Db } from './area.ts'
import { notFound } from './errors.ts'
import { hashSecret, type KeyResolver, matches } from './gates/bearer.ts'
import { operatorKeys } from './state/tables.ts'

export interface OperatorKey {
  id: string
  label: string
  created_at: string
}

export interface OperatorKeys {
  resolve: KeyResolver
  list(): OperatorKey[]
  /** Reads the committed keys again; call it after a mint or a revocation. */
  reload(): void
}

export function openOperatorKeys(read: Db): OperatorKeys {
  let known = new Map<string, { hash: Buffer; label: string }>()
  const rows = () => read.select().from(operatorKeys).orderBy(operatorKeys.createdAt).all()
  const reload = () => {
    known = new Map(rows().map(({ id, hash, label }) => [id, { hash: Buffer.from(hash, 'hex'), label }]))
  }
  reload()
  return {
    resolve(id, secret) {
      const key = known.get(id)
      return key && matches(key.hash, secret) ? { kind: 'operator', label: key.label } : undefined
    },
    list: () => rows().map(({ id, label, createdAt }) => ({ id, label, created_at: createdAt })),
    reload,
  }
}

/** The secret is in the result once and nowhere else. */
export function mintOperatorKey(tx: Db, label: string, now: Date): Change<OperatorKey & { key: string }> {
  const id = randomBytes(6).toString('hex')
  const secret = randomBytes(32).toString('base64url')
  const created_at = now.toISOString()
  tx.insert(operatorKeys)
    .values({ id, label, hash: hashSecret(secret).toString('hex'), createdAt: created_at })
    .run()
  const shown: OperatorKey = { id, label, created_at }
  return {
    result: { ...shown, key: `ok_${id}_${secret}` },
    touch: [],
    events: [{ type: 'auth.created', resource: resourceOf(id), data: shown }],
  }
}

export function revokeOperatorKey(tx: Db, id: string): Change<{ status: 'revoked'; id: string }> {
  const { changes } = tx.delete(operatorKeys).where(eq(operatorKeys.id, id)).run()
  if (changes === 0) throw notFound('operator key', id)
  return {
    result: { status: 'revoked', id },
    touch: [],
    events: [{ type: 'auth.deleted', resource: resourceOf(id), data: { id } }],
  }
}

const resourceOf = (id: string): string => `/control/v1/apikeys/${id}`
