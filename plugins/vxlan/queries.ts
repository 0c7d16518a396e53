/** The statements of the area, prepared once per connection. */
import { and, asc, count, eq, gt, sql } from 'drizzle-orm'
import type { Db } from '../../core/area.ts'
import { prepared } from '../../core/state/prepared.ts'
import { PAGE } from '../../core/transport/list.ts'
import { local, networks, type PeerRow, peers } from './tables.ts'

const { placeholder } = sql
/**
 * A peer is in force where its overlay is and its VTEP can be one: not the node's own, and of the same family. Others are
 * kept for the rest of the cluster.
 */
const inForce = sql`exists (select 1 from vxlan_networks own where own.vni = vxlan_peers.vni)
  and exists (select 1 from vxlan_local own where own.address <> vtep and (instr(own.address, ':') > 0) = (instr(vtep, ':') > 0))`
const ofOwn = sql`exists (select 1 from vxlan_networks own where own.vni = vxlan_peers.vni)`
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
  withSubnet: db.select().from(networks).where(gt(networks.subnet, '')).orderBy(asc(networks.vni)).prepare(),
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
    .where(and(sql`(vni, host) > (${placeholder('vni')}, ${placeholder('host')})`, inForce))
    .orderBy(asc(peers.vni), asc(peers.host))
    .limit(PAGE)
    .prepare(),
  peerWithMac: db
    .select()
    .from(peers)
    .where(and(eq(peers.vni, placeholder('vni')), eq(peers.mac, placeholder('mac')), sql`mac <> ''`))
    .prepare(),
  macInForce: db
    .select()
    .from(peers)
    .where(and(eq(peers.vni, placeholder('vni')), eq(peers.mac, placeholder('mac')), sql`mac <> ''`, inForce))
    .prepare(),
  vniVtepInForce: db
    .select()
    .from(peers)
    .where(and(eq(peers.vtep, placeholder('vtep')), eq(peers.vni, placeholder('vni')), inForce))
    .limit(1)
    .prepare(),
  vtepInForce: db
    .select()
    .from(peers)
    .where(and(eq(peers.vtep, placeholder('vtep')), inForce))
    .limit(1)
    .prepare(),
  vtepsInForce: db.selectDistinct({ vtep: peers.vtep }).from(peers).where(inForce).prepare(),
  /** Of the overlays that this node has. */
  ownAt: db
    .select()
    .from(peers)
    .where(and(eq(peers.vtep, placeholder('vtep')), ofOwn))
    .prepare(),
  /** Of the overlays that this node has, by IPv4 (`ipv6` 0) or IPv6 (1). */
  ownOfFamily: db
    .select()
    .from(peers)
    .where(and(eq(sql`instr(vtep, ':') > 0`, placeholder('ipv6')), ofOwn))
    .prepare(),
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

/** Those in force, page by page, so that no statement stays open while the caller yields. */
export function* everyPeer(db: Db): Generator<PeerRow> {
  for (let last = { vni: 0, host: '' }; ; ) {
    const page = queries(db).peerPage.all(last)
    yield* page
    const end = page.at(-1)
    if (end === undefined || page.length < PAGE) return
    last = end
  }
}
