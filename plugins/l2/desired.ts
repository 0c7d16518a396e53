/** Rows and configuration → entries of the data plane. Pure. */
import { eq } from 'drizzle-orm'
import type { Db, Desired } from '../../core/area.ts'
import { uplink } from '../../dataplane/bpf/port/entries.ts'
import { bridge, member } from '../../dataplane/netlink/entries.ts'
import { WORK_BRIDGE } from '../../dataplane/numbers.ts'
import { bridgeNames } from './rules.ts'
import { ports, settings } from './tables.ts'

type PortRow = typeof ports.$inferSelect

/** The node answers and forwards on the workload bridge as itself, and asks there with an address of the network. */
const WORK_SYSCTLS = [
  [`ipv4/conf/${WORK_BRIDGE}/forwarding`, 1],
  [`ipv4/conf/${WORK_BRIDGE}/arp_announce`, 2],
] as const

/** Without an address of its own a bridge has that of one of its ports, and another whenever they change. */
function bridgeEntry(db: Db, name: string) {
  if (name !== WORK_BRIDGE) return bridge('l2', name)
  const mac = db.select().from(settings).where(eq(settings.name, 'work_mac')).get()?.value
  return bridge('l2', name, { sysctls: WORK_SYSCTLS, ...(mac && { mac }) })
}
const portEntry = (row: PortRow) => member('l2', row.interface, row.bridge)

export const desired: Desired = {
  *all(db, config) {
    for (const name of bridgeNames(db)) yield bridgeEntry(db, name)
    for (const row of db.select().from(ports).all()) yield portEntry(row)
    for (const name of config.list('workload_uplinks')) yield uplink('l2', name)
  },
  one(db, id) {
    const [kind = '', name = ''] = id.split('/')
    if (kind === 'bridge') return bridgeNames(db).includes(name) ? [bridgeEntry(db, name)] : []
    return db.select().from(ports).where(eq(ports.interface, name)).all().map(portEntry)
  },
}
