/** What tenants offer to other areas, inside their transaction. Whoever takes something for one asks core/tenancy.ts. */
export { findTenant, setTenantStatus, tenantUpdated, toTenant } from './rules.ts'
export { Tenant } from './schemas.ts'
export type { TenantRow } from './tables.ts'
