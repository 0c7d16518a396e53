/** What overlays have to say to whoever makes a private network: those of its range that do not carry it. */
import type { Db } from '../../core/area.ts'
import { contains, parsePrefix } from '../../dataplane/nft/text.ts'
import { type Carried, carried } from '../networks/offers.ts'
import { joined } from './desired.ts'
import { queries } from './queries.ts'
import type { NetworkRow } from './tables.ts'

/** Overlays that are named one by one; that there are others is said. */
const MAX_NAMED = 3

/** What an overlay carries is settled when it is made, so one that was there before a network of its range passes it by. */
export function warningsOfNetwork(db: Db, id: string): string[] {
  const network = carried(db, id)
  if (network === undefined) return []
  const beside = queries(db)
    .withSubnet.all()
    .filter((row) => meet(row.subnet, network.cidr) && !('id' in Object(joined(db, row))))
  const more = beside.length - MAX_NAMED
  return [
    ...beside.slice(0, MAX_NAMED).map((row) => sentence(db, row, network)),
    ...(more > 0 ? [`${more} more VXLAN networks have addresses of this network and do not carry it`] : []),
  ]
}

const sentence = (db: Db, row: NetworkRow, { id }: Carried): string =>
  `VXLAN network ${row.vni} (${row.subnet}) carries ${joined(db, row) === 'open' ? 'open ports' : 'nothing'} and not this network, ` +
  `so machines of this network do not reach its peers: delete it, add it again with "network": "${id}", and add its peers again`

function meet(one: string, other: string): boolean {
  const [a, b] = [parsePrefix(one), parsePrefix(other)]
  return a !== undefined && b !== undefined && (contains(a, b) || contains(b, a))
}
