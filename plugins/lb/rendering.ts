/** What rendering has in common, whoever balances: VIPs with whoever serves them, and the addresses that the area brings up. Pure. */
import type { Db, Desired } from '../../core/area.ts'
import type { Config } from '../../core/config.ts'
import type { VipEntry } from '../../dataplane/bpf/lb/entries.ts'
import type { Entry } from '../../dataplane/entry.ts'
import { type AddressEntry, address } from '../../dataplane/netlink/entries.ts'
import { configuredVips } from '../gateway/offers.ts'
import { everyVip, queries } from './queries.ts'
import type { VipRow } from './tables.ts'

export const AREA = 'lb'
/** Where addresses are as long as the node never had an uplink. Other devices answer for them too, where it is IPv4. */
const LOOPBACK = 'lo'

/** The uplink; while the node knows none, the one that it had. */
const placeOf = (db: Db, uplink: string): string => uplink || (queries(db).place.get()?.interface ?? LOOPBACK)

export function vipEntry(db: Db, { id, address, port, protocol, algorithm, dsr }: VipRow): VipEntry {
  const backends = queries(db)
    .backendsOf.all({ vip: id })
    .map(({ handle, ip, port, weight, state }) => ({ id: handle, address: ip, port, weight, state }))
  return { kind: 'vip', key: `${AREA}/vip/${id}`, id, address, port, protocol, algorithm, dsr, backends }
}

/** However many VIPs have the address, it is one entry. */
function addressEntries(db: Db, rows: readonly { address: string }[], config: Config): AddressEntry[] {
  const link = placeOf(db, config.text('uplink'))
  const gateway = new Set(configuredVips(config).map((vip) => vip.address))
  return (
    rows
      // The gateway's address is the gateway's to hold and to yield.
      .filter((row) => !gateway.has(row.address))
      // Alone: the neighbourhood is that of the uplink.
      .map((row) => {
        const cidr = `${row.address}/${row.address.includes(':') ? 128 : 32}`
        return address(AREA, { link, address: cidr, noPrefixRoute: true, floating: link !== LOOPBACK })
      })
  )
}

/** What carries a VIP. */
export type Render = (db: Db, row: VipRow, config: Config) => Entry[]

/** `constant` is there without any VIP. */
export const renders = (constant: readonly Entry[], render: Render): Desired => ({
  *all(db, config) {
    yield* constant
    yield* addressEntries(db, queries(db).held.all(), config)
    for (const row of everyVip(db)) yield* render(db, row, config)
  },
  one(db, ref, config) {
    const [kind, id = ''] = [ref.slice(0, ref.indexOf('/')), ref.slice(ref.indexOf('/') + 1)]
    if (kind === 'address') return addressEntries(db, queries(db).heldOne.all({ address: id }), config)
    const row = queries(db).vip.get({ id })
    return row === undefined ? [] : render(db, row, config)
  },
})
