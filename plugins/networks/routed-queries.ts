/** The statements of routed public addresses, prepared once per connection. */
import { and, asc, between, eq, getTableColumns, gt, gte, lte, or, sql } from 'drizzle-orm'
import type { Db } from '../../core/area.ts'
import { prepared } from '../../core/state/prepared.ts'
import { PAGE } from '../../core/transport/list.ts'
import { everyColumn } from './queries.ts'
import { type ClaimRow, claims, type EndpointRow, endpoints, networks, type RangeRow, ranges } from './tables.ts'

const { placeholder } = sql
const ofIp = eq(claims.ip, placeholder('ip'))
/** The claim's own MAC, or that of its endpoint. */
const currentMac = sql<string>`coalesce(${endpoints.mac}, ${claims.mac})`

const ofNetwork = and(eq(claims.net, networks.net), sql`${claims.net} > 0`)
const ofEverybody = and(eq(ranges.id, claims.range), sql`${ranges.tenantId} = ''`)

export const routedQueries = prepared((db) => ({
  range: db
    .select()
    .from(ranges)
    .where(eq(ranges.id, placeholder('id')))
    .prepare(),
  allRanges: db.select().from(ranges).orderBy(asc(ranges.last)).prepare(),
  rangesOf: db
    .select()
    .from(ranges)
    .where(eq(ranges.tenantId, placeholder('tenant')))
    .orderBy(asc(ranges.last))
    .prepare(),
  /** Those of all tenants. */
  tenantRangePage: db
    .select({ tenant: ranges.tenantId, first: ranges.first, last: ranges.last })
    .from(ranges)
    .where(sql`(tenant_id, last) > (${placeholder('tenant')}, ${placeholder('last')})`)
    .orderBy(asc(ranges.tenantId), asc(ranges.last))
    .limit(PAGE)
    .prepare(),
  rangeCount: db.select({ count: sql<number>`count(*)` }).from(ranges).prepare(),
  /** Ranges are disjoint: the first that ends at or above an address is the only one that can hold it. */
  rangeFrom: db
    .select()
    .from(ranges)
    .where(gte(ranges.last, placeholder('ip')))
    .orderBy(asc(ranges.last))
    .limit(1)
    .prepare(),
  rangeOfFrom: db
    .select()
    .from(ranges)
    .where(and(eq(ranges.tenantId, placeholder('tenant')), gte(ranges.last, placeholder('ip'))))
    .orderBy(asc(ranges.last))
    .limit(1)
    .prepare(),
  /** The first range of a tenant that has an address left. */
  rangeWithRoom: db
    .select()
    .from(ranges)
    .where(and(eq(ranges.tenantId, placeholder('tenant')), sql`used <= last - first`))
    .orderBy(asc(ranges.last))
    .limit(1)
    .prepare(),
  addRange: db
    .insert(ranges)
    .values(everyColumn<RangeRow>(getTableColumns(ranges)))
    .prepare(),
  removeRange: db
    .delete(ranges)
    .where(eq(ranges.id, placeholder('id')))
    .prepare(),
  countUsed: db
    .update(ranges)
    .set({ used: sql`used + ${placeholder('by')}` })
    .where(eq(ranges.id, placeholder('id')))
    .prepare(),

  claim: db
    .select({ ...getTableColumns(claims), currentMac })
    .from(claims)
    .leftJoin(endpoints, and(eq(claims.net, endpoints.net), eq(claims.address, endpoints.address)))
    .where(ofIp)
    .prepare(),
  claimsBetween: db
    .select({ ...getTableColumns(claims), currentMac })
    .from(claims)
    .leftJoin(endpoints, and(eq(claims.net, endpoints.net), eq(claims.address, endpoints.address)))
    .where(between(claims.ip, placeholder('first'), placeholder('last')))
    .orderBy(asc(claims.ip))
    .prepare(),
  /** Of NICs that have nothing else. */
  claimsAlonePage: db
    .select({ ip: claims.ip, own: claims.own, machine: claims.machine, mac: claims.mac })
    .from(claims)
    .where(and(gt(claims.ip, placeholder('after')), lte(claims.ip, placeholder('last')), sql`own > 0`))
    .orderBy(asc(claims.ip))
    .limit(PAGE)
    .prepare(),
  claimPage: db
    .select({ ip: claims.ip })
    .from(claims)
    .where(gt(claims.ip, placeholder('ip')))
    .orderBy(asc(claims.ip))
    .limit(PAGE)
    .prepare(),
  /** Endpoints, each with the claimed address that its NIC has as well. */
  endpointPage: db
    .select({ ...getTableColumns(endpoints), claimed: claims.ip })
    .from(endpoints)
    .leftJoin(claims, and(eq(claims.net, endpoints.net), eq(claims.address, endpoints.address), sql`${claims.net} > 0`))
    .where(sql`(${endpoints.net}, ${endpoints.address}) > (${placeholder('net')}, ${placeholder('address')})`)
    .orderBy(asc(endpoints.net), asc(endpoints.address))
    .limit(PAGE)
    .prepare(),
  /** The address after the lowest claimed one in the block that is followed by an unclaimed one. */
  gapAfterClaim: db
    .select({ ip: sql<number>`ip + 1` })
    .from(claims)
    .where(
      and(
        between(claims.ip, placeholder('first'), sql`${placeholder('last')} - 1`),
        sql`not exists (select 1 from networks_claims as next where next.ip = networks_claims.ip + 1)`,
      ),
    )
    .orderBy(asc(claims.ip))
    .limit(1)
    .prepare(),
  claimOfEndpoint: db
    .select()
    .from(claims)
    .where(and(eq(claims.net, placeholder('net')), eq(claims.address, placeholder('address')), sql`net > 0`))
    .prepare(),
  claimsOfMachine: db
    .select()
    .from(claims)
    .where(eq(claims.machine, placeholder('machine')))
    .orderBy(asc(claims.ip))
    .prepare(),
  /** Of NICs that have nothing else. */
  claimsAloneOf: db
    .select(getTableColumns(claims))
    .from(ranges)
    .innerJoin(claims, between(claims.ip, ranges.first, ranges.last))
    .where(and(eq(ranges.tenantId, placeholder('tenant')), eq(claims.net, 0)))
    .prepare(),
  /** Of a NIC that has nothing else. */
  claimWithMac: db
    .select()
    .from(claims)
    .where(and(eq(claims.mac, placeholder('mac')), sql`mac <> ''`))
    .limit(1)
    .prepare(),
  claimNumbered: db
    .select({ ip: claims.ip })
    .from(claims)
    .where(and(eq(claims.own, placeholder('own')), sql`own > 0`))
    .prepare(),
  /** Of NICs that have nothing else, in ranges of a tenant. */
  claimsOfTenant: db
    .select({ ip: claims.ip, own: claims.own })
    .from(ranges)
    .innerJoin(claims, between(claims.ip, ranges.first, ranges.last))
    .where(and(eq(ranges.tenantId, placeholder('tenant')), gt(claims.own, 0)))
    .prepare(),
  tenantOfNumbered: db
    .select({ tenantId: ranges.tenantId })
    .from(claims)
    .innerJoin(ranges, eq(claims.range, ranges.id))
    .where(and(eq(claims.own, placeholder('own')), sql`own > 0`))
    .prepare(),
  claimOnPort: db
    .select()
    .from(claims)
    .where(and(eq(claims.port, placeholder('port')), sql`port <> ''`))
    .limit(1)
    .prepare(),
  /** Up to a page of a network's. */
  claimsOfNet: db
    .select()
    .from(claims)
    .where(and(eq(claims.net, placeholder('net')), sql`net > 0`))
    .limit(PAGE)
    .prepare(),
  /** Addresses that are reserved to a tenant. */
  reservedOf: db
    .select({ count: sql<number>`coalesce(sum(last - first + 1), 0)` })
    .from(ranges)
    .where(eq(ranges.tenantId, placeholder('tenant')))
    .prepare(),
  /** Addresses of ranges for everybody that NICs in networks of a tenant have. */
  sharedCountOf: db
    .select({ count: sql<number>`count(*)` })
    .from(networks)
    .innerJoin(claims, ofNetwork)
    .innerJoin(ranges, ofEverybody)
    .where(eq(networks.tenantId, placeholder('tenant')))
    .prepare(),
  /** Those after the one at an address of a network, by the network's name. */
  sharedPageOf: db
    .select({ ...getTableColumns(claims), currentMac, name: networks.name })
    .from(networks)
    .innerJoin(claims, ofNetwork)
    .innerJoin(ranges, ofEverybody)
    .leftJoin(endpoints, and(eq(claims.net, endpoints.net), eq(claims.address, endpoints.address)))
    .where(
      and(
        eq(networks.tenantId, placeholder('tenant')),
        gte(networks.name, placeholder('name')),
        or(gt(networks.name, placeholder('name')), gt(claims.address, placeholder('address'))),
      ),
    )
    .orderBy(asc(networks.name), asc(claims.address))
    .limit(PAGE)
    .prepare(),
  anyClaim: db.select({ ip: claims.ip }).from(claims).limit(1).prepare(),
  addClaim: db
    .insert(claims)
    .values(everyColumn<ClaimRow>(getTableColumns(claims)))
    .prepare(),
  /** The NIC has lost its endpoint and keeps the public address. */
  standAlone: db
    .update(claims)
    .set({
      net: 0,
      address: 0,
      keptPort: '',
      ...everyColumn<Pick<ClaimRow, 'mac' | 'own' | 'port'>>({ mac: 0, own: 0, port: 0 }),
    })
    .where(ofIp)
    .prepare(),
  removeClaim: db.delete(claims).where(ofIp).prepare(),
}))

/** Every claimed address, ascending; page by page, so that no statement stays open while the caller yields. */
export function* everyClaim(db: Db): Generator<number> {
  for (let last = 0; ; ) {
    const page = routedQueries(db).claimPage.all({ ip: last })
    for (const { ip } of page) yield ip
    const end = page.at(-1)
    if (end === undefined || page.length < PAGE) return
    last = end.ip
  }
}

/** An endpoint and the claimed address that its NIC has as well, if it has one. */
export type EndpointWithClaim = EndpointRow & { claimed: number | null }

/** Every endpoint that is bound, network by network, page by page. */
export function* everyBound(db: Db): Generator<EndpointWithClaim> {
  for (let last = { net: 0, address: 0 }; ; ) {
    const page = routedQueries(db).endpointPage.all(last)
    for (const row of page) if (row.boundAt !== '') yield row
    const end = page.at(-1)
    if (end === undefined || page.length < PAGE) return
    last = end
  }
}
