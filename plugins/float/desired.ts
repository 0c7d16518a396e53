/** The floating addresses that this node has, on its uplink. Pure. */

import type { Db, Desired } from '../../core/area.ts'
import type { Config } from '../../core/config.ts'
import { type AddressEntry, address } from '../../dataplane/netlink/entries.ts'
import { configuredVips } from '../gateway/offers.ts'
import { queries } from './queries.ts'
import type { AddressRow } from './tables.ts'

const AREA = 'float'
export const addressRef = (id: string) => ({ area: AREA, id })

/** The uplink; while the node knows none, the one that it had. '' where there never was one. */
export const placeOf = (db: Db, uplink: string): string => uplink || (queries(db).place.get()?.interface ?? '')

function entries(db: Db, rows: readonly AddressRow[], config: Config): AddressEntry[] {
  const link = placeOf(db, config.text('uplink'))
  if (link === '') return []
  const vips = new Set(configuredVips(config).map(({ address }) => address))
  // Alone: the neighbourhood is that of the uplink.
  return (
    rows
      // The gateway's address is the gateway's to hold and to yield.
      .filter(({ primary, ip }) => primary === '' && !vips.has(ip))
      .map(({ ip }) =>
        address(AREA, { link, address: `${ip}/${ip.includes(':') ? 128 : 32}`, noPrefixRoute: true, floating: true }),
      )
  )
}

export const desired: Desired = {
  all: (db, config) => entries(db, queries(db).own.all(), config),
  one: (db, id, config) => entries(db, queries(db).one.all({ id }), config),
}
