/** Domain rules of tenants: input → rows, and what changed. Knows neither Fastify nor the kernel. */
import type { Change, Db, EventDraft } from '../../core/area.ts'
import { alreadyExists, badRequest, limitReached, notFound } from '../../core/errors.ts'
import { removeHoldings } from '../../core/tenancy.ts'
import { queries } from './queries.ts'
import type { Tenant, TenantChange, TenantDeleted, TenantInput } from './schemas.ts'
import type { TenantRow } from './tables.ts'

const AREA = 'tenants'

export interface Creation {
  id: string
  now: string
  max: number
}

export function createTenant(
  tx: Db,
  { name }: TenantInput,
  { id, now, max }: Creation,
): Change<{ status: 'created'; tenant: Tenant }> {
  checkName(tx, name)
  if ((queries(tx).tenantCount.get()?.count ?? 0) >= max) throw limitReached('tenants', max)
  const row: TenantRow = { id, name, status: 'active', createdAt: now, updatedAt: now }
  queries(tx).add.run(row)
  const tenant = toTenant(row)
  return {
    result: { status: 'created', tenant },
    touch: [],
    events: [tenantCreated(row)],
  }
}

/** Changes name, status or both (D103); `deleted` is for `deleteTenant`. */
export function updateTenant(
  tx: Db,
  id: string,
  { name, status }: Omit<TenantChange, 'status'> & { status?: TenantRow['status'] },
  now: string,
): Change<{ status: 'updated'; tenant: Tenant }> {
  const old = findTenant(tx, id)
  if (name === undefined && status === undefined) throw badRequest('name or status is required')
  if (name !== undefined && name !== old.name) checkName(tx, name)
  const row = put(tx, { ...old, name: name ?? old.name, status: status ?? old.status, updatedAt: now })
  return { result: { status: 'updated', tenant: toTenant(row) }, touch: [], events: [tenantUpdated(row)] }
}

/** Takes everything along that bears its id, in use or not, of whichever area. */
export async function deleteTenant(tx: Db, id: string): Promise<Change<TenantDeleted>> {
  findTenant(tx, id)
  const { touch, events } = await removeHoldings(tx, id)
  queries(tx).removeKeys.run({ tenant: id })
  queries(tx).removeLimits.run({ tenant: id })
  queries(tx).remove.run({ id })
  return { result: { status: 'deleted', id }, touch, events: [...events, tenantDeleted(id)] }
}

/** @throws ApiError 404 */
export function findTenant(db: Db, id: string): TenantRow {
  const row = queries(db).tenant.get({ id })
  if (row === undefined) throw notFound('tenant', id.replace(/[^\x21-\x7e]/g, '?').slice(0, 64))
  return row
}

/** Suspends a tenant or makes it active again; the caller tells of it. @throws ApiError 404 */
export function setTenantStatus(tx: Db, id: string, status: TenantRow['status'], now: string): TenantRow {
  const old = findTenant(tx, id)
  return old.status === status ? old : put(tx, { ...old, status, updatedAt: now })
}

export const toTenant = ({ id, name, status, createdAt, updatedAt }: TenantRow): Tenant => ({
  ...{ id, name, status },
  created_at: createdAt,
  updated_at: updatedAt,
})

export const tenantCreated = (row: TenantRow): EventDraft => ({ ...tenantUpdated(row), type: 'tenant.created' })
export const tenantDeleted = (id: string): EventDraft => ({
  type: 'tenant.deleted',
  area: AREA,
  resource: resourceOf(id),
  data: { id },
})
export const tenantUpdated = (row: TenantRow): EventDraft => ({
  type: 'tenant.updated',
  area: AREA,
  resource: resourceOf(row.id),
  data: toTenant(row),
})

/** Path of a tenant, as events name what they are about. */
export const resourceOf = (id: string): string => `/api/v1/tenant/${id}`

function put(tx: Db, row: TenantRow): TenantRow {
  queries(tx).update.run(row)
  return row
}

function checkName(tx: Db, name: string): void {
  if (queries(tx).tenantNamed.get({ name })) throw alreadyExists(`tenant ${name}`)
}
