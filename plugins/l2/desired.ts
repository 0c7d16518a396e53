/** Rows and configuration → entries of the data plane. Pure. */
import { eq } from 'drizzle-orm'
import type { Db, Desired } from '../../core/area.ts'
import type { Config } from '../../core/config.ts'
import { closing, uplink } from '../../dataplane/bpf/port/entries.ts'
import { bond, bridge, member } from '../../dataplane/netlink/entries.ts'
import { WORK_BRIDGE } from '../../dataplane/numbers.ts'
import { bridgeNames } from './rules.ts'
import { type BondRow, bondMembers, bonds, ports, settings } from './tables.ts'

type PortRow = typeof ports.$inferSelect

/** The node answers and forwards on the workload bridge as itself, asks there with an address of the network, and is redirected by nobody. */
const WORK_SYSCTLS = [
  [`ipv4/conf/${WORK_BRIDGE}/forwarding`, 1],
  [`ipv4/conf/${WORK_BRIDGE}/arp_announce`, 2],
  [`ipv4/conf/${WORK_BRIDGE}/accept_redirects`, 0],
  [`ipv6/conf/${WORK_BRIDGE}/accept_redirects`, 0],
] as const
/** No router there tells the node its addresses and routes. */
const CLOSED_SYSCTLS = [
  [`ipv6/conf/${WORK_BRIDGE}/accept_ra`, 0],
  [`ipv6/conf/${WORK_BRIDGE}/autoconf`, 0],
] as const

const setting = (db: Db, name: string) => db.select().from(settings).where(eq(settings.name, name)).get()?.value

/** Whether the ports of `br-work` that belong to no network reach the node. */
function areClosed(db: Db, config: Config): boolean {
  const asked = config.text('open_ports')
  return (asked === 'auto' ? setting(db, 'open_ports') : asked) === 'closed'
}

/** Without an address of its own a bridge has that of one of its ports, and another whenever they change. */
function bridgeEntry(db: Db, config: Config, name: string) {
  if (name !== WORK_BRIDGE) return bridge('l2', name)
  const mac = setting(db, 'work_mac')
  const sysctls = [...WORK_SYSCTLS, ...(areClosed(db, config) ? CLOSED_SYSCTLS : [])]
  return bridge('l2', name, { sysctls, ...(mac && { mac }) })
}
const portEntry = (row: PortRow) => member('l2', row.interface, row.bridge)
const bondEntry = ({ name, mode, mtu }: BondRow) => bond('l2', name, mode, { mtu })

const memberships = (db: Db) =>
  db
    .select({ interface: bondMembers.interface, bond: bonds.name, wasUp: bondMembers.wasUp })
    .from(bondMembers)
    .innerJoin(bonds, eq(bonds.id, bondMembers.bond))
const memberEntry = (row: { interface: string; bond: string; wasUp: boolean }) =>
  member('l2', row.interface, row.bond, row.wasUp)

export const desired: Desired = {
  *all(db, config) {
    for (const name of bridgeNames(db)) yield bridgeEntry(db, config, name)
    for (const row of db.select().from(bonds).all()) yield bondEntry(row)
    for (const row of memberships(db).orderBy(bondMembers.number).all()) yield memberEntry(row)
    for (const row of db.select().from(ports).all()) yield portEntry(row)
    for (const name of config.list('workload_uplinks')) yield uplink('l2', name)
    if (areClosed(db, config)) yield closing('l2')
  },
  one(db, id, config) {
    const [kind = '', name = ''] = id.split('/')
    if (kind === 'bridge') return bridgeNames(db).includes(name) ? [bridgeEntry(db, config, name)] : []
    if (kind === 'bond') return db.select().from(bonds).where(eq(bonds.id, name)).all().map(bondEntry)
    if (kind === 'member') return memberships(db).where(eq(bondMembers.interface, name)).all().map(memberEntry)
    return db.select().from(ports).where(eq(ports.interface, name)).all().map(portEntry)
  },
}
