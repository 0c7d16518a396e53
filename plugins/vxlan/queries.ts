/** The statements of the area, prepared once per connection. */
import { and, asc, count, eq, gt, sql } from 'drizzle-orm'
import type { Db } from '../../core/area.ts'
import { prepared } from '../../core/state/prepared.ts'
import { PAGE } from '../../core/transport/list.ts'
import { local, networks, type PeerRow, peers } from './tables.ts'

const { placeholder } = sql
const ofPeer = and(eq(peers.vni, placeholder('vni')), eq(peers.host, placeholder('host')))

export const queries = prepared((db) => ({
  network: db
    .select()
    .from(networks)
    .where(eq(networks.vni, placeholder('vni')))
    .prepare(),
  networkPage: db
    .select()
    .from(networks)
    .where(gt(networks.vni, placeholder('after')))
    .orderBy(asc(networks.vni))
    .limit(placeholder('limit'))
    .prepare(),
  allNetworks: db.select().from(networks).orderBy(asc(networks.vni)).prepare(),
  /** Those that follow from which private networks there are. */
  ofNetwork: db
    .select()
    .from(networks)
    .where(eq(networks.network, placeholder('network')))
    .prepare(),
  anyNetwork: db.select({ vni: networks.vni }).from(networks).limit(1).prepare(),
  networkCount: db.select({ many: count() }).from(networks).prepare(),
  addNetwork: db
    .insert(networks)
    .values({ vni: placeholder('vni'), subnet: placeholder('subnet'), network: placeholder('network') })
    .prepare(),
  removeNetwork: db
    .delete(networks)
    .where(eq(networks.vni, placeholder('vni')))
    .prepare(),

  peer: db.select().from(peers).where(ofPeer).prepare(),
  peersOf: db
    .select()
    .from(peers)
    .where(eq(peers.vni, placeholder('vni')))
    .orderBy(asc(peers.host))
    .prepare(),
  peerPage: db
    .select()
    .from(peers)
    .where(sql`(vni, host) > (${placeholder('vni')}, ${placeholder('host')})`)
    .orderBy(asc(peers.vni), asc(peers.host))
    .limit(PAGE)
    .prepare(),
  peerWithMac: db
    .select()
    .from(peers)
    .where(and(eq(peers.vni, placeholder('vni')), eq(peers.mac, placeholder('mac')), sql`mac <> ''`))
    .prepare(),
  peerAt: db
    .select()
    .from(peers)
    .where(and(eq(peers.vtep, placeholder('vtep')), eq(peers.vni, placeholder('vni'))))
    .limit(1)
    .prepare(),
  anyAt: db
    .select()
    .from(peers)
    .where(eq(peers.vtep, placeholder('vtep')))
    .limit(1)
    .prepare(),
  /** A peer by IPv4 (`ipv6` 0) or IPv6 (1). */
  anyOfFamily: db
    .select()
    .from(peers)
    .where(eq(sql`instr(vtep, ':') > 0`, placeholder('ipv6')))
    .limit(1)
    .prepare(),
  vteps: db.selectDistinct({ vtep: peers.vtep }).from(peers).prepare(),
  peerCount: db.select({ many: count() }).from(peers).prepare(),
  peerCountOf: db
    .select({ many: count() })
    .from(peers)
    .where(eq(peers.vni, placeholder('vni')))
    .prepare(),
  addPeer: db
    .insert(peers)
    .values({
      vni: placeholder('vni'),
      host: placeholder('host'),
      mac: placeholder('mac'),
      vtep: placeholder('vtep'),
    })
    .prepare(),
  removePeer: db.delete(peers).where(ofPeer).prepare(),
  removePeers: db
    .delete(peers)
    .where(eq(peers.vni, placeholder('vni')))
    .prepare(),

  local: db.select().from(local).where(eq(local.id, 1)).prepare(),
  setLocal: db
    .insert(local)
    .values({ id: 1, address: placeholder('address'), mtu: placeholder('mtu') })
    .onConflictDoUpdate({ target: local.id, set: { address: sql`excluded.address`, mtu: sql`excluded.mtu` } })
    .prepare(),
}))

/** Page by page, so that no statement stays open while the caller yields. */
export function* everyPeer(db: Db): Generator<PeerRow> {
  for (let last = { vni: 0, host: '' }; ; ) {
    const page = queries(db).peerPage.all(last)
    yield* page
    const end = page.at(-1)
    if (end === undefined || page.length < PAGE) return
    last = end
  }
}
