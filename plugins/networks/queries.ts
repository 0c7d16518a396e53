/** The statements of the networks and their endpoints, prepared once per connection. Those of routed addresses: routed-queries.ts. */
import { and, asc, between, count, eq, getTableColumns, gt, gte, lte, ne, sql } from 'drizzle-orm'
import type { Db } from '../../core/area.ts'
import { prepared } from '../../core/state/prepared.ts'
import { PAGE } from '../../core/transport/list.ts'
import { counters, type EndpointRow, endpoints, type NetworkRow, networks } from './tables.ts'

/** Addresses of the largest network: none that begins further below another block can reach into it. */
const WIDEST = 65_536
/** Rows that one statement of a long deletion takes. */
export const PORTION = 2000

const { placeholder } = sql
/** A placeholder stands for any value; drizzle wants each column by name. */
export const everyColumn = <Row>(columns: object): Row =>
  Object.fromEntries(Object.keys(columns).map((name) => [name, placeholder(name)])) as Row
const ofEndpoint = and(eq(endpoints.net, placeholder('net')), eq(endpoints.address, placeholder('address')))
/** Networks that may share an address with `first` to `last`. */
const meeting = and(
  between(networks.first, sql`${placeholder('first')} - ${WIDEST}`, placeholder('last')),
  gte(networks.last, placeholder('first')),
)

export const queries = prepared((db) => ({
  network: db
    .select()
    .from(networks)
    .where(eq(networks.id, placeholder('id')))
    .prepare(),
  networkNamed: db
    .select()
    .from(networks)
    .where(eq(networks.name, placeholder('name')))
    .prepare(),
  networkNumbered: db
    .select()
    .from(networks)
    .where(eq(networks.net, placeholder('net')))
    .prepare(),
  networkOnVlan: db
    .select()
    .from(networks)
    .where(and(eq(networks.vlan, placeholder('vlan')), sql`vlan > 0`))
    .prepare(),
  anyGateway: db.select({ net: networks.net }).from(networks).where(eq(networks.hostGateway, true)).limit(1).prepare(),
  allNetworks: db.select().from(networks).orderBy(asc(networks.name)).prepare(),
  networkPage: db
    .select()
    .from(networks)
    .where(gt(networks.name, placeholder('after')))
    .orderBy(asc(networks.name))
    .limit(PAGE)
    .prepare(),
  networksOfTenant: db
    .select({ net: networks.net })
    .from(networks)
    .where(eq(networks.tenantId, placeholder('tenant')))
    .orderBy(asc(networks.name))
    .prepare(),
  networkPageOf: db
    .select()
    .from(networks)
    .where(and(eq(networks.tenantId, placeholder('tenant')), gt(networks.name, placeholder('after'))))
    .orderBy(asc(networks.name))
    .limit(PAGE)
    .prepare(),
  /** Those of all tenants. */
  tenantNetworkPage: db
    .select({ net: networks.net, tenant: networks.tenantId, name: networks.name })
    .from(networks)
    .where(sql`(tenant_id, name) > (${placeholder('tenant')}, ${placeholder('name')})`)
    .orderBy(asc(networks.tenantId), asc(networks.name))
    .limit(PAGE)
    .prepare(),
  networkCountOf: db
    .select({ count: sql<number>`count(*)` })
    .from(networks)
    .where(eq(networks.tenantId, placeholder('tenant')))
    .prepare(),
  networkCount: db.select({ count: sql<number>`count(*)` }).from(networks).prepare(),
  networkMeeting: db.select().from(networks).where(meeting).limit(1).prepare(),
  /** Another network with the host gateway on the same addresses. */
  gatewayMeeting: db
    .select()
    .from(networks)
    .where(and(meeting, eq(networks.hostGateway, true), ne(networks.net, placeholder('net'))))
    .limit(1)
    .prepare(),
  networkOn: db
    .select()
    .from(networks)
    .where(and(eq(networks.first, placeholder('first')), eq(networks.last, placeholder('last'))))
    .limit(1)
    .prepare(),
  /** Two of them are as many as one needs to know of. */
  networksOn: db
    .select()
    .from(networks)
    .where(and(eq(networks.first, placeholder('first')), eq(networks.last, placeholder('last'))))
    .limit(2)
    .prepare(),
  /** A network that holds the block and more. */
  networkAround: db
    .select()
    .from(networks)
    .where(
      and(
        between(networks.first, sql`${placeholder('first')} - ${WIDEST}`, placeholder('first')),
        gte(networks.last, placeholder('last')),
        sql`last - first > ${placeholder('last')} - ${placeholder('first')}`,
      ),
    )
    .limit(1)
    .prepare(),
  blocksInside: db
    .selectDistinct({ first: networks.first, last: networks.last })
    .from(networks)
    .where(
      and(between(networks.first, placeholder('first'), placeholder('last')), lte(networks.last, placeholder('last'))),
    )
    .prepare(),
  addNetwork: db
    .insert(networks)
    .values(everyColumn<NetworkRow>(getTableColumns(networks)))
    .prepare(),
  setGateway: db
    .update(networks)
    .set(everyColumn<Pick<NetworkRow, 'hostGateway' | 'snat' | 'dhcp'>>({ hostGateway: 0, snat: 0, dhcp: 0 }))
    .where(eq(networks.id, placeholder('id')))
    .prepare(),
  removeNetwork: db
    .delete(networks)
    .where(eq(networks.id, placeholder('id')))
    .prepare(),

  endpoint: db.select().from(endpoints).where(ofEndpoint).prepare(),
  endpointWithMac: db
    .select()
    .from(endpoints)
    .where(and(eq(endpoints.net, placeholder('net')), eq(endpoints.mac, placeholder('mac'))))
    .prepare(),
  endpointFreeWithMac: db
    .select()
    .from(endpoints)
    .where(and(eq(endpoints.net, placeholder('net')), eq(endpoints.freeMac, placeholder('mac')), sql`free_mac <> ''`))
    .prepare(),
  endpointsBetween: db
    .select()
    .from(endpoints)
    .where(
      and(eq(endpoints.net, placeholder('net')), between(endpoints.address, placeholder('first'), placeholder('last'))),
    )
    .orderBy(asc(endpoints.address))
    .prepare(),
  boundIn: db
    .select()
    .from(endpoints)
    .where(and(eq(endpoints.net, placeholder('net')), ne(endpoints.boundAt, '')))
    .limit(1)
    .prepare(),
  boundAfter: db
    .select()
    .from(endpoints)
    .where(
      and(eq(endpoints.net, placeholder('net')), gt(endpoints.address, placeholder('address')), sql`bound_at <> ''`),
    )
    .orderBy(asc(endpoints.address))
    .limit(PAGE)
    .prepare(),
  boundCountOf: db
    .select({ count: sql<number>`count(*)` })
    .from(networks)
    .innerJoin(endpoints, and(eq(endpoints.net, networks.net), sql`bound_at <> ''`))
    .where(eq(networks.tenantId, placeholder('tenant')))
    .prepare(),
  endpointPage: db
    .select()
    .from(endpoints)
    .where(sql`(net, address) > (${placeholder('net')}, ${placeholder('address')})`)
    .orderBy(asc(endpoints.net), asc(endpoints.address))
    .limit(PAGE)
    .prepare(),
  /** Those of one network that are bound. */
  boundPage: db
    .select({ address: endpoints.address, since: endpoints.boundAt, machine: endpoints.machine })
    .from(endpoints)
    .where(
      and(
        eq(endpoints.net, placeholder('net')),
        gt(endpoints.address, placeholder('address')),
        ne(endpoints.boundAt, ''),
      ),
    )
    .orderBy(asc(endpoints.address))
    .limit(PAGE)
    .prepare(),
  reservedEndpoints: db
    .select()
    .from(endpoints)
    .where(sql`reserved_at <> ''`)
    .orderBy(asc(endpoints.net), asc(endpoints.address))
    .prepare(),
  reservedCount: db.select({ count: count() }).from(endpoints).where(sql`reserved_at <> ''`).prepare(),
  endpointsOfMachine: db
    .select()
    .from(endpoints)
    .where(and(eq(endpoints.machine, placeholder('machine')), sql`machine <> ''`))
    .orderBy(asc(endpoints.net), asc(endpoints.address))
    .prepare(),
  endpointsOfTenant: db
    .select(getTableColumns(endpoints))
    .from(networks)
    .innerJoin(endpoints, eq(endpoints.net, networks.net))
    .where(and(eq(networks.tenantId, placeholder('tenant')), sql`machine <> ''`))
    .prepare(),
  endpointOnPort: db
    .select()
    .from(endpoints)
    .where(and(eq(endpoints.port, placeholder('port')), sql`port <> ''`, ne(endpoints.net, placeholder('net'))))
    .limit(1)
    .prepare(),
  putEndpoint: db
    .insert(endpoints)
    .values(everyColumn<EndpointRow>(getTableColumns(endpoints)))
    .onConflictDoUpdate({
      target: [endpoints.net, endpoints.address],
      set: {
        mac: sql`excluded.mac`,
        freeMac: sql`excluded.free_mac`,
        boundAt: sql`excluded.bound_at`,
        machine: sql`excluded.machine`,
        port: sql`excluded.port`,
        keptPort: sql`excluded.kept_port`,
        reservedAt: sql`excluded.reserved_at`,
      },
    })
    .prepare(),
  removeEndpoint: db.delete(endpoints).where(ofEndpoint).prepare(),
  clearEndpoints: db
    .delete(endpoints)
    .where(sql`rowid in (select rowid from networks_endpoints where net = ${placeholder('net')} limit ${PORTION})`)
    .prepare(),

  counter: db
    .select()
    .from(counters)
    .where(eq(counters.name, placeholder('name')))
    .prepare(),
  setCounter: db
    .insert(counters)
    .values({ name: placeholder('name'), value: placeholder('value') })
    .onConflictDoUpdate({ target: counters.name, set: { value: sql`excluded.value` } })
    .prepare(),
}))

/** Every endpoint of a network that is bound; page by page, so that no statement stays open while the caller yields. */
export function* boundOf(db: Db, net: number): Generator<EndpointRow> {
  for (let last = { net, address: 0 }; ; ) {
    const page = queries(db).endpointPage.all(last)
    for (const row of page) {
      if (row.net !== net) return
      if (row.boundAt !== '') yield row
    }
    const end = page.at(-1)
    if (end === undefined || page.length < PAGE) return
    last = end
  }
}

/** The number after the one that was given last, from 1 to `most` and round again, that is not in use. */
export function nextNumber(tx: Db, name: string, most: number, inUse: (number: number) => boolean): number {
  let number = queries(tx).counter.get({ name })?.value ?? 0
  do number = number >= most ? 1 : number + 1
  while (inUse(number))
  queries(tx).setCounter.run({ name, value: number })
  return number
}
