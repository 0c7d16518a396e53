/** Domain rules of quotas. What was used comes from the kernel, by `usageOf`. */
import { eq } from 'drizzle-orm'
import type { Change, Db } from '../../core/area.ts'
import { alreadyExists, lacks, limitReached } from '../../core/errors.ts'
import { monthOf, type Usage } from '../../dataplane/shaping/quotas.ts'
import { warnAt } from './desired.ts'
import { readMac } from './input.ts'
import { freeSlot, place, placeAll } from './place.ts'
import { queries } from './queries.ts'
import type { Quota, QuotaInput, QuotaStatus } from './schemas.ts'
import { type QuotaRow, quotas } from './tables.ts'

const resource = (mac: string) => `/api/v1/bandwidth/quotas/${mac}`

/** What the kernel has counted; undefined when it does not have the quota. */
export type UsageOf = (quota: { slot: number; number: number }) => Usage | undefined

export interface Counting {
  usageOf: UsageOf
  now: Date
}

/** Bytes of the month that `now` is in, or of a later one that was begun (D118): as counted, or else as last written down. */
export function usedOf({ slot, seq, used, month }: QuotaRow, { usageOf, now }: Counting): Usage {
  const current = Math.max(monthOf(now).month, month)
  const counted = usageOf({ slot, number: seq }) ?? { used, month }
  return { used: counted.month >= current ? counted.used : 0, month: current }
}

export function statusOf(limit: number, used: number): QuotaStatus {
  if (used >= limit) return 'exceeded'
  return used >= warnAt(limit) ? 'warning' : 'ok'
}

export function toQuota(row: QuotaRow, counting: Counting): Quota {
  const { used, month } = usedOf(row, counting)
  const status = statusOf(row.limit, used)
  return {
    id: row.id,
    mac: row.mac,
    monthly_limit_bytes: row.limit,
    used_bytes: used,
    reset_day: 1,
    action: row.action,
    enforced: row.enforced,
    current_period: periodOf(month),
    status,
    remaining_bytes: Math.max(0, row.limit - used),
    throttled: row.enforced && row.action === 'throttle' && status === 'exceeded',
  }
}

const periodOf = (month: number): string => `${Math.floor(month / 12)}-${String((month % 12) + 1).padStart(2, '0')}`

/** Makes a quota, or makes the one of this id another; what was used stays. @throws ApiError 400, 409 */
export function putQuota(
  tx: Db,
  input: QuotaInput,
  counting: Counting,
  max: number,
): Change<{ status: 'created' | 'updated'; quota: Quota }> {
  const mac = readMac(input.mac, 'mac')
  const before = queries(tx).quota.get({ id: input.id })
  const holder = queries(tx).quotaOf.get({ mac })
  if (holder && holder.id !== input.id) throw alreadyExists(`quota ${holder.id} of ${mac}`)
  const { action = 'notify', enforced = false, monthly_limit_bytes: limit } = input
  const row = { mac, limit, action, enforced }
  const stays = before?.mac === mac
  if (!before && (queries(tx).quotaCount.get()?.many ?? 0) >= max) throw limitReached('quotas', max)
  const stored = stays ? changed(tx, before, row, counting) : made(tx, input.id, row, counting)
  const quota = toQuota(stored, counting)
  const status = before ? 'updated' : 'created'
  return {
    result: { status, quota },
    touch: placeAll(tx, [...(before ? [before.mac] : []), mac]),
    events: [{ type: `quota.${status}`, resource: resource(mac), data: quota }],
  }
}

type Fields = Pick<QuotaRow, 'mac' | 'limit' | 'action' | 'enforced'>

/** Another MAC begins anew, in another slot: an undo finds what the one before has counted where it was. */
function made(tx: Db, id: string, fields: Fields, { now }: Counting): QuotaRow {
  const fresh = { id, slot: freeSlot(tx), used: 0, month: monthOf(now).month, status: 'ok' as const }
  tx.delete(quotas).where(eq(quotas.id, id)).run()
  return tx
    .insert(quotas)
    .values({ ...fresh, ...fields })
    .returning()
    .get()
}

function changed(tx: Db, before: QuotaRow, fields: Fields, counting: Counting): QuotaRow {
  const { used, month } = usedOf(before, counting)
  // Told by the answer: nobody needs to hear of it once more.
  const status = statusOf(fields.limit, used)
  const row = { ...before, ...fields, used, month, status }
  tx.update(quotas).set(row).where(eq(quotas.id, before.id)).run()
  return row
}

/** @throws ApiError 404 naming the MAC */
export function findQuota(db: Db, text: string): QuotaRow {
  const mac = readMac(text, 'mac')
  const row = queries(db).quotaOf.get({ mac })
  if (row === undefined) throw lacks(mac, 'quota')
  return row
}

/** @throws ApiError 404 */
export function deleteQuota(tx: Db, text: string): Change<{ status: 'deleted'; id: string; mac: string }> {
  const { id, mac } = findQuota(tx, text)
  tx.delete(quotas).where(eq(quotas.id, id)).run()
  return {
    result: { status: 'deleted', id, mac },
    touch: place(tx, mac),
    events: [{ type: 'quota.deleted', resource: resource(mac), data: { id } }],
  }
}
