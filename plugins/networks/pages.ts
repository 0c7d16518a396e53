/** Long lists, page by page: endpoints of a network and addresses of the routed ranges, which are computed; what a tenant has. */
import type { Db } from '../../core/area.ts'
import { PAGE } from '../../core/transport/list.ts'
import { toAddress } from './claims.ts'
import { computed } from './endpoints.ts'
import { parseIp } from './ipv4.ts'
import { queries } from './queries.ts'
import { routedQueries } from './routed-queries.ts'
import type { Network, RoutedAddress } from './schemas.ts'
import type { EndpointRow, NetworkRow } from './tables.ts'
import { toNetwork } from './views.ts'

/** Endpoints after `last` (from the first without one), by address. */
export function endpointPage(db: Db, network: NetworkRow, last: EndpointRow | undefined): EndpointRow[] {
  const { net, gateway } = network
  const from = (last?.address ?? network.first) + 1
  // One more than a page, because the gateway may be among them.
  const to = Math.min(from + PAGE, network.last - 1)
  const stored = queries(db).endpointsBetween.all({ net, first: from, last: to })
  const page: EndpointRow[] = []
  let at = 0
  for (let address = from; address <= to && page.length < PAGE; address++) {
    const row = stored[at]
    if (row?.address === address) {
      at++
      page.push(row)
    } else if (address !== gateway) page.push(computed(net, address))
  }
  return page
}

/** Addresses after `last` of every range, or of a tenant's. */
export function addressPage(db: Db, tenant: string | undefined, last: RoutedAddress | undefined): RoutedAddress[] {
  const q = routedQueries(db)
  const page: RoutedAddress[] = []
  for (let ip = ((last && parseIp(last.ip)) ?? -1) + 1; page.length < PAGE; ) {
    const range = tenant === undefined ? q.rangeFrom.get({ ip }) : q.rangeOfFrom.get({ ip, tenant })
    if (range === undefined) break
    const first = Math.max(ip, range.first)
    ip = Math.min(range.last, first + PAGE - page.length - 1) + 1
    const claims = new Map(q.claimsBetween.all({ first, last: ip - 1 }).map((claim) => [claim.ip, claim]))
    for (let at = first; at < ip; at++) page.push(toAddress(at, range, claims.get(at)))
  }
  return page
}

/** A network of a tenant, by name. */
export const tenantNetworkPage = (db: Db, tenant: string, last: Network | undefined): Network[] =>
  queries(db)
    .networkPageOf.all({ tenant, after: last?.name ?? '' })
    .map(toNetwork)

/** A public address of a tenant, and for one out of a range for everybody where in the list it stands. */
export interface TenantAddress {
  address: RoutedAddress
  /** Name of the network whose endpoint has it, and the endpoint's address. */
  shared?: { name: string; address: number }
}

/** Addresses after `last` that a tenant has: those reserved to it, used or not, then what its networks have beside them. */
export function tenantAddressPage(db: Db, tenant: string, last: TenantAddress | undefined): TenantAddress[] {
  const reserved = last?.shared ? [] : addressPage(db, tenant, last?.address).map((address) => ({ address }))
  if (reserved.length === PAGE) return reserved
  const { name = '', address = 0 } = last?.shared ?? {}
  const rows = routedQueries(db).sharedPageOf.all({ tenant, name, address })
  const shared = rows.map((row) => ({
    address: toAddress(row.ip, { id: row.range, tenantId: '' }, row),
    shared: { name: row.name, address: row.address },
  }))
  return [...reserved, ...shared].slice(0, PAGE)
}
