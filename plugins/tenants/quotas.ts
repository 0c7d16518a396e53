/** What a tenant may have (D104), and the decision whether it gets more. */
import type { Change, Db, EventDraft } from '../../core/area.ts'
import { conflict, notFound } from '../../core/errors.ts'
import { type Admits, RESOURCES, type Resource, useOf } from '../../core/tenancy.ts'
import { queries } from './queries.ts'
import { findTenant, resourceOf } from './rules.ts'
import type { Limits, Quota } from './schemas.ts'

/** What a suspended tenant gets no more of (D103). */
const ENDS_WITH_SUSPENSION: ReadonlySet<Resource> = new Set(['endpoints', 'routed_addresses', 'keys'])

/** Lowering a limit below what there is takes nothing away: it keeps new things from coming. */
export const admits: Admits = (tx, { tenantId, resource, more }) => {
  const found = queries(tx).standing.get({ id: tenantId, resource })
  if (found === undefined) throw notFound('tenant', tenantId)
  const { name, status, most } = found
  if (status === 'suspended' && ENDS_WITH_SUSPENSION.has(resource)) {
    throw conflict('TENANT_SUSPENDED', `tenant ${name} is suspended and gets no more ${resource}; set it active first`)
  }
  if (!most || more === 0) return
  const used = useOf(tx, tenantId, resource)
  if (used + more > most) throw conflict('QUOTA_EXCEEDED', `quota exceeded: ${resource} (${used} of ${most})`)
}

export function setQuota(tx: Db, id: string, limits: Limits, now: string): Change<{ status: 'updated'; quota: Quota }> {
  findTenant(tx, id)
  for (const resource of RESOURCES) {
    const most = limits[resource]
    // -1 says unlimited elsewhere (D104).
    if (most !== undefined) queries(tx).setLimit.run({ tenant: id, resource, most: Math.max(0, most), updatedAt: now })
  }
  return { result: { status: 'updated', quota: showQuota(tx, id) }, touch: [], events: [quotaUpdated(tx, id)] }
}

export const quotaUpdated = (tx: Db, id: string): EventDraft => ({
  type: 'tenant_quota.updated',
  resource: `${resourceOf(id)}/quota`,
  data: showQuota(tx, id),
})

/** @throws ApiError 404 for an unknown tenant */
export function showQuota(db: Db, id: string): Quota {
  const { createdAt } = findTenant(db, id)
  const set = new Map(
    queries(db)
      .limits.all({ tenant: id })
      .map(({ resource, most }) => [resource, most]),
  )
  return {
    tenant_id: id,
    limits: ofEach((resource) => set.get(resource) ?? 0),
    usage: showUsage(db, id),
    updated_at: queries(db).limitsChanged.get({ tenant: id })?.at ?? createdAt,
  }
}

/** How much a tenant has of each resource. @throws ApiError 404 */
export function showUsage(db: Db, id: string): Quota['usage'] {
  findTenant(db, id)
  return ofEach((resource) => useOf(db, id, resource))
}

const ofEach = (amount: (resource: Resource) => number) =>
  Object.fromEntries(RESOURCES.map((resource) => [resource, amount(resource)])) as Record<Resource, number>
