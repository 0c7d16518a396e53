/**
 * Tenants, as areas know them that do not keep them. Whoever takes something for a tenant asks `admit` in the transaction
 * that takes it; whoever keeps things of tenants declares its `holdings`: how much of them there is, and how they go. An
 * area that keeps the tenants themselves declares `admits`. Without one every id is admitted and nothing is limited.
 */
import type { Change, Db } from './area.ts'
import type { Store } from './state/store.ts'

/** What a quota can limit (D104); the last two are rates and amounts, all others counts. */
export const RESOURCES = [
  'networks',
  'endpoints',
  'ip_pools',
  'ip_allocations',
  'routed_addresses',
  'keys',
  'bandwidth_bps',
  'monthly_bytes',
] as const
export type Resource = (typeof RESOURCES)[number]

/** What a tenant asks for: `more` of a resource on top of what it has. 0 uses what it was given before. */
export interface Taking {
  tenantId: string
  resource: Resource
  more: number
}

/** Decides in the open transaction, before the rows are written. @throws ApiError for an unknown tenant, or one that has enough */
export type Admits = (tx: Db, taking: Taking) => void

/** What a deletion of a tenant took along. */
export type Gone = Pick<Change<unknown>, 'touch' | 'events'>

/** What an area keeps for tenants. */
export interface Holdings {
  /** How much a tenant has of each resource, found by an index. */
  uses: Partial<Record<Resource, (db: Db, tenantId: string) => number>>
  /** Takes everything away that bears the tenant's id, in use or not; gives the event loop its turn where that is much. */
  remove(tx: Db, tenantId: string): Promise<Gone>
}

interface Member {
  name: string
  admits?: Admits
  holdings?: Holdings
}

/** Which areas have a part in tenants belongs to a store, and rules have nothing but its connections. */
const memberOf = new WeakMap<Db, ReadonlyMap<string, Member>>()

/** Tells the connections of a store which areas are on, each after those that it needs; some may go from `areas` later. */
export function openTenancy({ write, read }: Pick<Store, 'write' | 'read'>, areas: ReadonlyMap<string, Member>): void {
  for (const db of [write, read]) memberOf.set(db, areas)
}

/**
 * Makes sure that a tenant may have `more` of a resource, and answers its id as rows keep it: '' for the operator, who may
 * have everything.
 * @throws ApiError 404 for an unknown tenant; 409 over its quota, or while it is suspended and may take nothing new
 */
export function admit(tx: Db, tenantId: string | undefined, resource: Resource, more = 1): string {
  if (!tenantId) return ''
  for (const { admits } of members(tx)) admits?.(tx, { tenantId, resource, more })
  return tenantId
}

/** How much of a resource a tenant has, over all areas. */
export function useOf(db: Db, tenantId: string, resource: Resource): number {
  return members(db).reduce((sum, { holdings }) => sum + (holdings?.uses[resource]?.(db, tenantId) ?? 0), 0)
}

/** Takes from all areas what bears the tenant's id, from those first that rest on others. */
export async function removeHoldings(tx: Db, tenantId: string): Promise<Gone> {
  const gone: Gone = { touch: [], events: [] }
  for (const { name, holdings } of members(tx).reverse()) {
    if (holdings === undefined) continue
    const { touch, events } = await holdings.remove(tx, tenantId)
    gone.touch = gone.touch.concat(touch)
    gone.events = gone.events.concat(events.map((event) => ({ area: name, ...event })))
  }
  return gone
}

const members = (db: Db): Member[] => [...(memberOf.get(db)?.values() ?? [])]
