/**
 * What all members of a cluster hold of IPAM: the pools that nothing on a node owns, and what is allocated in them. What is
 * free follows from that; the number of an allocation is the node's own.
 */
import type { Db } from '../../core/area.ts'
import type { Collection, FollowUp, Row } from '../../core/replication.ts'
import { clearSpace, FIRST_OWN, OPERATORS, toAllocation, toPool } from './offers.ts'
import { PORTION, queries } from './queries.ts'
import { allocationCreated, allocationDeleted, poolCreated, poolDeleted } from './rules.ts'
import { giveBack, openSpace, take } from './space.ts'
import type { AllocationRow, PoolRow } from './tables.ts'

const ofTenant = (id: unknown): string[] => (id === OPERATORS ? [] : [`tenant/${id}`])

const pools: Collection = {
  name: 'ipam_pools',
  key: ['id'],
  columns: [...['id', 'name', 'subnet', 'family', 'first', 'last', 'gateway', 'range_start', 'range_end'], 'tenant_id'],
  where: "row.owner = ''",
  parents: [{ collection: 'tenants_tenants', columns: ['tenant_id'] }],
  /** Pools of a tenant do not overlap, nor do those of nobody. */
  serial: ({ tenant_id }) => (tenant_id === OPERATORS ? ['pools'] : ofTenant(tenant_id)),
  async follow(tx, before, after) {
    const { id } = poolIn(after ?? before)
    const row = queries(tx).pool.get({ id })
    if (before) await clearSpace(tx, id)
    if (row === undefined) return { touch: [], events: [poolDeleted(id)] }
    queries(tx).reached.run({ name: 'shared', value: id })
    openSpace(tx, id, row.rangeStart, row.rangeEnd, row.gateway)
    if (before) await takeAll(tx, id)
    return { touch: [], events: [...(before ? [poolDeleted(id)] : []), poolCreated(toPool(row))] }
  },
}

const allocations: Collection = {
  name: 'ipam_allocations',
  key: ['pool_id', 'ip'],
  columns: ['pool_id', 'ip', 'tenant_id', 'hostname'],
  where: `row.pool_id < ${FIRST_OWN}`,
  parents: [{ collection: pools.name, columns: ['pool_id'] }],
  serial: ({ tenant_id }) => ofTenant(tenant_id),
  follow(tx, before, after): FollowUp {
    const row = allocationIn(after ?? before)
    const nothing: FollowUp = { touch: [], events: [] }
    // With its pool goes the space that it would leave, and nobody is told.
    if (queries(tx).pool.get({ id: row.poolId }) === undefined) return nothing
    if (after === undefined) {
      giveBack(tx, row.poolId, row.ip)
      return { ...nothing, events: [allocationDeleted(toAllocation(row))] }
    }
    if (before === undefined) take(tx, row.poolId, row.ip)
    return { ...nothing, events: [allocationCreated(toAllocation(row))] }
  },
}

/** The number of the last pool, so that a node that comes later gives none again that was given before. */
const counters: Collection = {
  name: 'ipam_counters',
  key: ['name'],
  columns: ['name', 'value'],
  where: "row.name = 'shared'",
  yields: true,
}

export const replicates = [pools, allocations, counters]

/** After a pool was replaced by another: what stands is taken out of its space again. */
async function takeAll(tx: Db, pool: number): Promise<void> {
  for (let ip = ''; ; ) {
    const page = queries(tx).addressesOf.all({ pool, ip })
    for (const row of page) take(tx, pool, row.ip)
    const last = page.at(-1)
    if (last === undefined || page.length < PORTION) return
    ip = last.ip
    await new Promise(setImmediate)
  }
}

const poolIn = (row: Row | undefined): Pick<PoolRow, 'id'> => ({ id: Number(row?.id) })
const allocationIn = (row: Row | undefined): Pick<AllocationRow, 'id' | 'poolId' | 'ip' | 'hostname'> => ({
  id: Number(row?.id),
  poolId: Number(row?.pool_id),
  ip: String(row?.ip),
  hostname: String(row?.hostname),
})
