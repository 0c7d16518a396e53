/** The VIP, while the node has it, on its interface. Pure. */

import type { Db, Desired } from '../../core/area.ts'
import type { Config } from '../../core/config.ts'
import { type AddressEntry, address } from '../../dataplane/netlink/entries.ts'
import { queries } from './queries.ts'
import { circumstances, holds, placeOf } from './role.ts'

const AREA = 'gateway'
export const VIP_REF = { area: AREA, id: 'vip' }

/** `boot` tells which boot of the machine this is: a claim of an earlier one may not count. */
export function desiredIn(boot: () => string): Desired {
  const entries = (db: Db, config: Config): AddressEntry[] => {
    const [row, now] = [queries(db).role.get(), circumstances(config, boot())]
    const link = placeOf(row, now)
    if (link === '' || !holds(row, now)) return []
    return now.vips.map(({ family, cidr }) => {
      // A bare address has no neighbourhood; with a length the operator asks for the route to it.
      const noPrefixRoute = cidr.endsWith(family === 4 ? '/32' : '/128')
      return address(AREA, { link, address: cidr, noPrefixRoute, floating: true })
    })
  }
  return { all: entries, one: (db, _id, config) => entries(db, config) }
}
