/**
 * What members have written into etcd, read as what it shall be or not at all. A member that is in the hands of somebody else writes what it
 * likes there; the others must be able to go on, and to remove it.
 */
import { isIP } from 'node:net'
import type { Collection, Row } from '../../core/replication.ts'
import type { Origin } from '../../core/state/events.ts'
import { certificatesIn, fingerprint256 } from './authority.ts'
import { rowKey } from './keys.ts'
import type { MemberRecord } from './standing.ts'
import type { TrustRecord } from './trusting.ts'

type Fields = Readonly<Record<string, unknown>>

const isText = (value: unknown): value is string => typeof value === 'string'
export const isTime = (value: unknown): value is string => isText(value) && !Number.isNaN(Date.parse(value))
export const isAddress = (value: unknown): value is string => isText(value) && isIP(value) !== 0

/** undefined: it is no object of JSON. */
export function fieldsIn(text: string): Fields | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : undefined
  } catch {
    return undefined
  }
}

export function memberRecordIn(text: string): MemberRecord | undefined {
  const { address, since, joined, key } = fieldsIn(text) ?? {}
  if (!isAddress(address) || !isText(since)) return undefined
  return { address, since, ...(joined === true && { joined }), ...(isText(key) && { key }) }
}

/** Exactly one certificate, and nothing beside it. */
function isAuthority(value: unknown): value is string {
  if (!isText(value)) return false
  const [only, ...more] = certificatesIn(value)
  try {
    return only !== undefined && more.length === 0 && only.trim() === value.trim() && fingerprint256(only) !== ''
  } catch {
    return false
  }
}

export function trustRecordIn(text: string): TrustRecord | undefined {
  const { authority, trusts, shows } = fieldsIn(text) ?? {}
  const isWhole = isAuthority(authority) && isText(shows) && Array.isArray(trusts) && trusts.every(isText)
  return isWhole ? { authority, trusts, shows } : undefined
}

/** Of an authority that all members had. */
export function formerIn(text: string | undefined): string | undefined {
  const { certificate } = (text === undefined ? undefined : fieldsIn(text)) ?? {}
  return isAuthority(certificate) ? certificate : undefined
}

/** Of a member's last change: who caused it. */
export function originIn(text: string): Origin | undefined {
  const { actor, requestId } = (fieldsIn(text)?.origin ?? {}) as { actor?: Fields; requestId?: unknown }
  const isWhole = isText(requestId) && typeof actor === 'object' && actor !== null
  return isWhole && isText(actor.kind) && isText(actor.label) ? ({ actor, requestId } as unknown as Origin) : undefined
}

/** A row that belongs under this key, of values that a column can have. */
export function rowIn(collection: Collection, key: string, text: string): Row | undefined {
  const fields = fieldsIn(text)
  const isValue = (value: unknown) => value === null || isText(value) || Number.isFinite(value)
  if (fields === undefined || !collection.columns.every((column) => !(column in fields) || isValue(fields[column])))
    return undefined
  return rowKey(collection, fields as Row) === key ? (fields as Row) : undefined
}
