/** Domain rules of billing: a tenant's state → rows, and what changed. Knows neither Fastify nor the kernel. */
import type { Change, Db, EventDraft } from '../../core/area.ts'
import { limitReached } from '../../core/errors.ts'
import { BUCKET_ROWS } from '../../dataplane/numbers.ts'
import { findTenant, setTenantStatus, tenantUpdated } from '../tenants/offers.ts'
import { refsOfTenant } from './desired.ts'
import { queries } from './queries.ts'
import type { State, SuspendInput } from './schemas.ts'
import type { StateRow } from './tables.ts'

/** Suspends a tenant; one that is suspended already stays so since when it was. @throws ApiError 404, 409 */
export function suspend(tx: Db, id: string, { block_traffic }: SuspendInput, now: string): Change<State> {
  const events = switchTo(tx, id, 'suspended', now)
  const old = stateOf(tx, id)
  const suspendedAt = events.length === 0 && old.suspendedAt !== '' ? old.suspendedAt : now
  return changed(tx, { ...old, suspendedAt, blocked: block_traffic ?? old.blocked }, events)
}

/** Ends a suspension and the block of traffic; a limit stays. @throws ApiError 404 */
export function resume(tx: Db, id: string, now: string): Change<State> {
  const events = switchTo(tx, id, 'active', now)
  return changed(tx, { ...stateOf(tx, id), suspendedAt: '', blocked: false }, events)
}

/** Limits the traffic of a tenant, 0 ends that. @throws ApiError 404, 409 */
export function limit(tx: Db, id: string, limitBps: number): Change<State> {
  findTenant(tx, id)
  return changed(tx, { ...stateOf(tx, id), limitBps })
}

/** As the API shows it, without what is counted. @throws ApiError 404 */
export function showState(db: Db, id: string): State {
  const { status } = findTenant(db, id)
  const { limitBps, suspendedAt, blocked } = stateOf(db, id)
  const suspended = status === 'suspended' || blocked
  return {
    tenant_id: id,
    state: suspended ? 'suspended' : limitBps > 0 ? 'limited' : 'active',
    limit_bps: limitBps,
    block_traffic: blocked,
    ...(suspended && suspendedAt && { suspended_at: suspendedAt }),
  }
}

/** The month in UTC that `now` is in: its start and the start of the next. */
export function monthOf(now: Date): string {
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth()]
  return [month, month + 1].map((at) => new Date(Date.UTC(year, at)).toISOString()).join('/')
}

type Wanted = Omit<StateRow, 'bucket'> & { bucket?: number }

const stateOf = (db: Db, tenantId: string): Wanted =>
  queries(db).state.get({ tenantId }) ?? { tenantId, limitBps: 0, suspendedAt: '', blocked: false }

/** What there is to tell of the tenant itself. */
function switchTo(tx: Db, id: string, status: 'active' | 'suspended', now: string): EventDraft[] {
  const old = findTenant(tx, id)
  return old.status === status ? [] : [tenantUpdated(setTenantStatus(tx, id, status, now))]
}

function changed(tx: Db, row: Wanted, events: EventDraft[] = []): Change<State> {
  const { tenantId, limitBps, suspendedAt, blocked } = row
  if (limitBps === 0 && suspendedAt === '') queries(tx).remove.run({ tenantId })
  else queries(tx).put.run({ ...row, bucket: row.bucket ?? freeBucket(tx), blocked: Number(blocked) })
  const state = showState(tx, tenantId)
  const told = { type: 'billing.updated', resource: `/api/v1/billing/tenants/${tenantId}`, data: state }
  return { result: state, touch: refsOfTenant(tx, tenantId), events: [...events, told] }
}

function freeBucket(tx: Db): number {
  const bucket = queries(tx).bucket.get({ bucket: 0 }) === undefined ? 0 : (queries(tx).gap.get()?.bucket ?? 0)
  if (bucket >= BUCKET_ROWS) throw limitReached('tenants that are limited or suspended', BUCKET_ROWS)
  return bucket
}
