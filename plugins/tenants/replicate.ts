/** What all members of a cluster hold of tenants; when a key was last used each node knows for itself. */
import type { EventDraft } from '../../core/area.ts'
import type { Collection, Row } from '../../core/replication.ts'
import { removeHoldings } from '../../core/tenancy.ts'
import { keyCreated, keyDeleted } from './keys.ts'
import { queries } from './queries.ts'
import { quotaUpdated } from './quotas.ts'
import { tenantCreated, tenantDeleted, tenantUpdated } from './rules.ts'

/** What is taken for a tenant, and whether it may be, excludes each other. */
const ofTenant = (id: unknown) => [`tenant/${id}`]
const told = (...events: EventDraft[]) => ({ touch: [], events })
const text = (row: Row | undefined, column: string) => String(row?.[column] ?? '')

const tenants: Collection = {
  name: 'tenants_tenants',
  key: ['id'],
  columns: ['id', 'name', 'status', 'created_at', 'updated_at'],
  unique: [['name']],
  serial: ({ id }) => ofTenant(id),
  named: ({ id }) => ofTenant(id),
  /** What this node itself keeps for a tenant goes with it here as it does everywhere. */
  async follow(tx, before, after) {
    const row = queries(tx).tenant.get({ id: text(after, 'id') })
    if (row) return told(before ? tenantUpdated(row) : tenantCreated(row))
    const id = text(before, 'id')
    const { touch, events } = await removeHoldings(tx, id)
    return { touch, events: [...events, tenantDeleted(id)] }
  },
}

const quotas: Collection = {
  name: 'tenants_quotas',
  key: ['tenant', 'resource'],
  columns: ['tenant', 'resource', 'most', 'updated_at'],
  parents: [{ collection: tenants.name, columns: ['tenant'] }],
  serial: ({ tenant }) => ofTenant(tenant),
  follow(tx, before, after) {
    const id = text(after ?? before, 'tenant')
    return queries(tx).tenant.get({ id }) ? told(quotaUpdated(tx, id)) : told()
  },
}

const keys: Collection = {
  name: 'tenants_keys',
  key: ['id'],
  columns: ['id', 'tenant', 'label', 'hash', 'created_at', 'expires_at', 'created_by'],
  parents: [{ collection: tenants.name, columns: ['tenant'] }],
  serial: ({ tenant }) => ofTenant(tenant),
  follow(tx, before, after) {
    const [id, tenant] = [text(after ?? before, 'id'), text(after ?? before, 'tenant')]
    const row = queries(tx).key.get({ id, tenant })
    if (row) return told(keyCreated(row))
    return queries(tx).tenant.get({ id: tenant }) ? told(keyDeleted({ id, tenant })) : told()
  },
}

export const replicates = [tenants, quotas, keys]
