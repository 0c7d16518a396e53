/**
 * What all members of a cluster hold of overlays: the peers, of overlays that this node does not have as well. Which of them
 * are in force here follows from the overlays and the VTEP that it has.
 */
import type { Collection, Row } from '../../core/replication.ts'
import { peerRefs } from './desired.ts'
import { peerCreated, peerDeleted } from './rules.ts'
import type { PeerRow } from './tables.ts'

const peers: Collection = {
  name: 'vxlan_peers',
  key: ['vni', 'host'],
  columns: ['vni', 'host', 'mac', 'vtep'],
  unique: [['vni', 'mac']],
  follow(_tx, before, after) {
    const [was, is] = [before && peerIn(before), after && peerIn(after)]
    return {
      touch: [...(was ? peerRefs(was) : []), ...(is ? peerRefs(is) : [])],
      events: [...(was ? [peerDeleted(was)] : []), ...(is ? [peerCreated(is)] : [])],
    }
  },
}

export const replicates = [peers]

const peerIn = ({ vni, host, mac, vtep }: Row): PeerRow => ({
  vni: Number(vni),
  host: String(host),
  mac: String(mac),
  vtep: String(vtep),
})
