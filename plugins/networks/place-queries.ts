/** The statements about devices of endpoints and of public addresses that are not named, prepared once per connection. */
import { and, eq, ne, sql } from 'drizzle-orm'
import { prepared } from '../../core/state/prepared.ts'
import { everyColumn, PORTION } from './queries.ts'
import { type ClaimRow, claims, endpoints, networks } from './tables.ts'

const { placeholder } = sql

export const placeQueries = prepared((db) => ({
  endpointKeeping: db
    .select()
    .from(endpoints)
    .where(
      and(eq(endpoints.keptPort, placeholder('port')), sql`kept_port <> ''`, ne(endpoints.net, placeholder('net'))),
    )
    .limit(1)
    .prepare(),
  anyKept: db
    .select({ net: endpoints.net })
    .from(endpoints)
    .where(sql`kept_port <> '' and kept_port > ''`)
    .limit(1)
    .prepare(),
  forgetKept: db
    .update(endpoints)
    .set({ keptPort: '' })
    .where(
      sql`rowid in (select rowid from networks_endpoints where kept_port <> '' and kept_port > '' limit ${PORTION})`,
    )
    .prepare(),
  /** Of which the device is not named. */
  anyUnnamed: db
    .select({ net: endpoints.net })
    .from(endpoints)
    .where(sql`bound_at <> '' and port = '' and net > 0`)
    .limit(1)
    .prepare(),
  /** Up to two tenants that have bound endpoints, '' being the operator. */
  tenantsBound: db
    .selectDistinct({ tenantId: networks.tenantId })
    .from(networks)
    .where(sql`exists (select 1 from networks_endpoints e where e.net = ${networks.net} and e.bound_at <> '')`)
    .limit(2)
    .prepare(),
  claimKeeping: db
    .select()
    .from(claims)
    .where(and(eq(claims.keptPort, placeholder('port')), sql`kept_port <> ''`, ne(claims.own, placeholder('own'))))
    .limit(1)
    .prepare(),
  anyKeptClaim: db
    .select({ ip: claims.ip })
    .from(claims)
    .where(sql`kept_port <> '' and kept_port > ''`)
    .limit(1)
    .prepare(),
  forgetKeptClaims: db.update(claims).set({ keptPort: '' }).where(sql`kept_port <> '' and kept_port > ''`).prepare(),
  setPorts: db
    .update(claims)
    .set(everyColumn<Pick<ClaimRow, 'port' | 'keptPort'>>({ port: 0, keptPort: 0 }))
    .where(eq(claims.ip, placeholder('ip')))
    .prepare(),
}))
