/** Rows → routes and policy rules in the kernel. Pure. */
import type { Desired } from '../../core/area.ts'
import { type PolicyEntry, policy, type RouteEntry, route } from '../../dataplane/netlink/entries.ts'
import { queries } from './queries.ts'
import type { RouteRow, RuleRow } from './tables.ts'

const AREA = 'routes'
export const routeRef = (id: number) => ({ area: AREA, id: `route/${id}` })
export const ruleRef = (id: number) => ({ area: AREA, id: `rule/${id}` })

export function routeEntry({ destination, gateway, interface: link, metric, table }: Omit<RouteRow, 'id'>): RouteEntry {
  return route(AREA, { destination, metric, table, ...(gateway && { gateway }), ...(link && { link }) })
}

/**
 * The kernel keeps rules by family: one entry where `from` or `to` says which, else one for each. A mark is compared in
 * all its bits, since those of a workload's frame are all in use (STAMP_MASK and what it leaves).
 */
export function ruleEntries({ from, to, fwmark, iif, oif, priority, table }: Omit<RuleRow, 'id'>): PolicyEntry[] {
  const fields = {
    priority,
    table,
    ...(from && { from }),
    ...(to && { to }),
    ...(fwmark > 0 && { fwmark }),
    ...(iif && { iif }),
    ...(oif && { oif }),
  }
  if (from || to) return [policy(AREA, fields)]
  return ([4, 6] as const).map((version) => policy(AREA, { ...fields, version }))
}

export const desired: Desired = {
  *all(db) {
    for (const row of queries(db).allRoutes.all()) yield routeEntry(row)
    for (const row of queries(db).allRules.all()) yield* ruleEntries(row)
  },
  one(db, ref) {
    const [kind, number] = ref.split('/')
    const id = Number(number)
    if (kind === 'route') return queries(db).route.all({ id }).map(routeEntry)
    return queries(db).rule.all({ id }).flatMap(ruleEntries)
  },
}
