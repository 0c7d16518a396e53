/** Rows → what the programs on the workload ports hold. Pure. */
import type { Db, Desired, Ref } from '../../core/area.ts'
import { type TenantNet, tenantNet } from '../../dataplane/bpf/port/entries.ts'
import { netsOfTenant, tenantOfNet } from '../networks/offers.ts'
import { queries } from './queries.ts'
import type { StateRow } from './tables.ts'

const AREA = 'billing'
const PREFIX = 'net/'

export const netRef = (net: number): Ref => ({ area: AREA, id: `${PREFIX}${net}` })
/** Everything that follows from the state of a tenant. */
export const refsOfTenant = (db: Db, tenantId: string): Ref[] => netsOfTenant(db, tenantId).map(netRef)

export const desired: Desired = {
  *all(db) {
    for (const row of queries(db).all.all()) {
      for (const net of netsOfTenant(db, row.tenantId)) yield* entries(row, net)
    }
  },
  one(db, id) {
    const net = Number(id.slice(PREFIX.length))
    const tenantId = tenantOfNet(db, net)
    return entries(tenantId ? queries(db).state.get({ tenantId }) : undefined, net)
  },
}

/** None where nothing holds: a net without an entry costs the programs nothing. */
function entries(row: StateRow | undefined, net: number): TenantNet[] {
  if (row === undefined || (row.limitBps === 0 && !row.blocked)) return []
  return [tenantNet(AREA, { net, bucket: row.bucket, rate: row.limitBps, blocked: row.blocked })]
}
