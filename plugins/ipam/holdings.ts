/** What IPAM keeps for tenants. Pools and addresses that belong to something else are counted, and go, with that. */
import type { Db, EventDraft } from '../../core/area.ts'
import { inSlices } from '../../core/slices.ts'
import type { Gone, Holdings } from '../../core/tenancy.ts'
import { PAGE } from '../../core/transport/list.ts'
import { removePool } from './offers.ts'
import { queries } from './queries.ts'
import { poolDeleted } from './rules.ts'

export const holdings: Holdings = {
  uses: {
    ip_pools: (db, tenant) => queries(db).directPoolsOf.get({ tenant })?.count ?? 0,
    ip_allocations: (db, tenant) => queries(db).directAllocationsOf.get({ tenant })?.count ?? 0,
  },
  remove: removePoolsOf,
}

async function removePoolsOf(tx: Db, tenant: string): Promise<Gone> {
  const events: EventDraft[] = []
  for (let after = 0; ; ) {
    const page = queries(tx).poolPageOf.all({ tenant, after })
    await inSlices(page, async ({ id, owner }) => {
      after = id
      if (owner !== '') return
      await removePool(tx, id)
      events.push(poolDeleted(id))
    })
    if (page.length < PAGE) return { touch: [], events }
  }
}
