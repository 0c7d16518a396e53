/** Which nets of the data plane are whose: private networks by their tenant, NICs with routed addresses only by that of their range. */
import type { Db } from '../../core/area.ts'
import { PAGE } from '../../core/transport/list.ts'
import { bindingKey } from '../../dataplane/bpf/port/entries.ts'
import { ROUTED_NET_BASE } from '../../dataplane/numbers.ts'
import { readRef } from './desired.ts'
import { ipText } from './ipv4.ts'
import { queries } from './queries.ts'
import { routedQueries } from './routed-queries.ts'

const AREA = 'networks'

/** Numbers of all nets of a tenant. */
export function netsOfTenant(db: Db, tenant: string): number[] {
  const own = routedQueries(db).claimsOfTenant.all({ tenant })
  return [
    ...queries(db)
      .networksOfTenant.all({ tenant })
      .map(({ net }) => net),
    ...own.map((claim) => ROUTED_NET_BASE + claim.own),
  ]
}

/** '' for the operator's own; undefined when there is no such net. */
export function tenantOfNet(db: Db, net: number): string | undefined {
  if (net < ROUTED_NET_BASE) return queries(db).networkNumbered.get({ net })?.tenantId
  return routedQueries(db).tenantOfNumbered.get({ own: net - ROUTED_NET_BASE })?.tenantId
}

/** Numbers of the nets that a ref of this area is about, for areas that follow it; none for refs within a net. */
export function netsOfRef(db: Db, id: string): number[] {
  const place = readRef(id)
  if (place?.kind === 'net') return [place.net]
  const own = place?.kind === 'claim' ? (routedQueries(db).claim.get({ ip: place.ip })?.own ?? 0) : 0
  return own > 0 ? [ROUTED_NET_BASE + own] : []
}

/** Keys of the entries of everything that is bound in a tenant's nets; page by page, so that the caller may yield. */
export function* bindingsOfTenant(db: Db, tenant: string): Generator<string> {
  for (const { net } of queries(db).networksOfTenant.all({ tenant })) {
    for (let last = 0; ; ) {
      const page = queries(db).boundPage.all({ net, address: last })
      for (const { address } of page) yield bindingKey(AREA, net, ipText(address))
      const end = page.at(-1)
      if (end === undefined || page.length < PAGE) break
      last = end.address
    }
  }
  for (const { ip, own } of routedQueries(db).claimsOfTenant.all({ tenant })) {
    yield bindingKey(AREA, ROUTED_NET_BASE + own, ipText(ip))
  }
}
