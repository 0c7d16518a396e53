/** How much of what the members share this node has (D98). */
import { sql } from 'drizzle-orm'
import type { Db } from '../../core/area.ts'
import type { Collection } from '../../core/replication.ts'
import type { StateCounts } from './schemas.ts'

/** Names of collections, which are those of tables. */
const COUNTED = {
  ip_allocations_count: 'ipam_allocations',
  vxlan_peers_count: 'vxlan_peers',
  floating_ips_count: 'float_addresses',
  tenants_count: 'tenants_tenants',
} as const

/** 0 of what an area keeps that is off here. */
export function countsOf(db: Db, collections: ReadonlyMap<string, Collection>): Omit<StateCounts, 'blocklist_count'> {
  const count = (name: string): number => {
    const collection = collections.get(name)
    if (collection === undefined) return 0
    // Both are words of an area's declaration.
    const where = sql.raw(collection.where ?? 'true')
    const found = db.get<{ many: number }>(
      sql`select count(*) as many from ${sql.identifier(name)} as row where ${where}`,
    )
    return found?.many ?? 0
  }
  return {
    ip_allocations_count: count(COUNTED.ip_allocations_count),
    vxlan_peers_count: count(COUNTED.vxlan_peers_count),
    floating_ips_count: count(COUNTED.floating_ips_count),
    tenants_count: count(COUNTED.tenants_count),
  }
}
