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
/** What is of no tenant stands first, and is passed over. */
const [BEHIND_NAMES, BEHIND_ADDRESSES] = ['\u{10ffff}', 2 ** 32]

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

/** What is bound in a net of a tenant. */
export interface TenantBinding {
  tenant: string
  /** That of its entry. */
  key: string
  /** Another text for whatever was bound there before. */
  since: string
}

/** Of all tenants; page by page, so that the caller may yield. */
export function* tenantBindings(db: Db): Generator<TenantBinding> {
  const { tenantNetworkPage, boundPage } = queries(db)
  const networks = paged((last: { tenant: string; name: string } | undefined) =>
    tenantNetworkPage.all({ tenant: last?.tenant ?? '', name: last?.name ?? BEHIND_NAMES }),
  )
  for (const { net, tenant } of networks) {
    const bound = paged((last: { address: number } | undefined) => boundPage.all({ net, address: last?.address ?? 0 }))
    for (const { address, since, machine } of bound) {
      yield { tenant, key: bindingKey(AREA, net, ipText(address)), since: `${since} ${machine}` }
    }
  }
  const { tenantRangePage, claimsAlonePage } = routedQueries(db)
  const ranges = paged((last: { tenant: string; last: number } | undefined) =>
    tenantRangePage.all({ tenant: last?.tenant ?? '', last: last?.last ?? BEHIND_ADDRESSES }),
  )
  for (const { tenant, first, last } of ranges) {
    const alone = paged((before: { ip: number } | undefined) =>
      claimsAlonePage.all({ after: before?.ip ?? first - 1, last }),
    )
    for (const { ip, own, machine, mac } of alone) {
      yield { tenant, key: bindingKey(AREA, ROUTED_NET_BASE + own, ipText(ip)), since: `${machine} ${mac}` }
    }
  }
}

/** All rows, of which `page` reads PAGE after the last. */
function* paged<Row>(page: (last: Row | undefined) => Row[]): Generator<Row> {
  for (let last: Row | undefined; ; ) {
    const rows = page(last)
    yield* rows
    if (rows.length < PAGE) return
    last = rows.at(-1)
  }
}
