/** The statements of the area, prepared once per connection. */
import { and, asc, count, eq, getTableColumns, gt, max, sql } from 'drizzle-orm'
import { prepared } from '../../core/state/prepared.ts'
import { PAGE } from '../../core/transport/list.ts'
import { type KeyRow, keys, quotas, type TenantRow, tenants } from './tables.ts'

const { placeholder } = sql
/** A placeholder stands for any value; drizzle wants each column by name. */
const everyColumn = <Row>(table: Record<string, unknown>): Row =>
  Object.fromEntries(Object.keys(table).map((name) => [name, placeholder(name)])) as Row
const itself = eq(tenants.id, placeholder('id'))
const ofTenant = eq(keys.tenant, placeholder('tenant'))

export const queries = prepared((db) => ({
  tenant: db.select().from(tenants).where(itself).prepare(),
  tenantNamed: db
    .select()
    .from(tenants)
    .where(eq(tenants.name, placeholder('name')))
    .prepare(),
  tenantPage: db
    .select()
    .from(tenants)
    .where(gt(tenants.name, placeholder('after')))
    .orderBy(asc(tenants.name))
    .limit(PAGE)
    .prepare(),
  tenantCount: db.select({ count: count() }).from(tenants).prepare(),
  add: db
    .insert(tenants)
    .values(everyColumn<TenantRow>(getTableColumns(tenants)))
    .prepare(),
  update: db
    .update(tenants)
    .set(everyColumn<Pick<TenantRow, 'name' | 'status' | 'updatedAt'>>({ name: 0, status: 0, updatedAt: 0 }))
    .where(itself)
    .prepare(),
  remove: db.delete(tenants).where(itself).prepare(),

  /** What decides whether a tenant gets more of a resource. */
  standing: db
    .select({ name: tenants.name, status: tenants.status, most: quotas.most })
    .from(tenants)
    .leftJoin(quotas, and(eq(quotas.tenant, tenants.id), eq(quotas.resource, placeholder('resource'))))
    .where(itself)
    .prepare(),
  limits: db
    .select({ resource: quotas.resource, most: quotas.most })
    .from(quotas)
    .where(eq(quotas.tenant, placeholder('tenant')))
    .prepare(),
  limitsChanged: db
    .select({ at: max(quotas.updatedAt) })
    .from(quotas)
    .where(eq(quotas.tenant, placeholder('tenant')))
    .prepare(),
  setLimit: db
    .insert(quotas)
    .values(everyColumn<typeof quotas.$inferInsert>(getTableColumns(quotas)))
    .onConflictDoUpdate({
      target: [quotas.tenant, quotas.resource],
      set: { most: sql`excluded.most`, updatedAt: sql`excluded.updated_at` },
    })
    .prepare(),
  removeLimits: db
    .delete(quotas)
    .where(eq(quotas.tenant, placeholder('tenant')))
    .prepare(),

  /** A key and how its tenant stands: asked with every request that presents one. */
  holder: db
    .select({ ...getTableColumns(keys), status: tenants.status })
    .from(keys)
    .innerJoin(tenants, eq(tenants.id, keys.tenant))
    .where(eq(keys.id, placeholder('id')))
    .prepare(),
  key: db
    .select()
    .from(keys)
    .where(and(eq(keys.id, placeholder('id')), ofTenant))
    .prepare(),
  keyPage: db
    .select()
    .from(keys)
    .where(and(ofTenant, sql`(created_at, id) > (${placeholder('createdAt')}, ${placeholder('id')})`))
    .orderBy(asc(keys.createdAt), asc(keys.id))
    .limit(PAGE)
    .prepare(),
  keyCountOf: db.select({ count: count() }).from(keys).where(ofTenant).prepare(),
  keyCount: db.select({ count: count() }).from(keys).prepare(),
  addKey: db
    .insert(keys)
    .values(everyColumn<KeyRow>(getTableColumns(keys)))
    .prepare(),
  used: db
    .update(keys)
    .set(everyColumn<Pick<KeyRow, 'lastUsedAt'>>({ lastUsedAt: 0 }))
    .where(eq(keys.id, placeholder('id')))
    .prepare(),
  removeKey: db
    .delete(keys)
    .where(eq(keys.id, placeholder('id')))
    .prepare(),
  removeKeys: db.delete(keys).where(ofTenant).prepare(),
}))
