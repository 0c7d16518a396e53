/**
 * Domain rules of bonds and their members. How the members stand is not stored: it comes from the kernel, as `Standing`,
 * whenever somebody asks.
 */
import { asc, count, eq } from 'drizzle-orm'
import type { Change, Db } from '../../core/area.ts'
import { alreadyExists, badRequest, conflict, lacks, limitReached, notFound } from '../../core/errors.ts'
import { MANAGEMENT_BRIDGE } from '../../dataplane/numbers.ts'
import { bridgeNames, type Device, holderOf, type Live, shown } from './rules.ts'
import type { Bond, BondInput, MemberState, Membership } from './schemas.ts'
import { type BondRow, bondMembers, bonds, ports } from './tables.ts'

export const DEFAULT_MTU = 1500

/** Of one member as the kernel tells: see dataplane/netlink/bond.ts. */
export interface MemberStanding {
  carrier: boolean
  active: boolean
  lacp?: { aggregated: boolean; partner: boolean }
}

/** Of a bond; a device that is away is no member. */
export interface Standing {
  active?: string
  members: ReadonlyMap<string, MemberStanding>
}

/** What the rules must know of the node besides. */
export interface BondLive extends Live {
  addresses: readonly { index: number; cidr: string }[]
}

export const bondRef = (id: string) => ({ area: 'l2', id: `bond/${id}` })
export const memberRef = (name: string) => ({ area: 'l2', id: `member/${name}` })
const resource = (id: string) => `/api/v1/bonds/${id}`

/** D84. */
export function memberState(found: MemberStanding | undefined): MemberState {
  if (found === undefined || !found.carrier || found.lacp?.partner === false) return 'failed'
  return (found.lacp?.aggregated ?? found.active) ? 'active' : 'standby'
}

export const allBonds = (db: Db): BondRow[] => db.select().from(bonds).orderBy(asc(bonds.number)).all()
export const bondCount = (db: Db): number => db.select({ count: count() }).from(bonds).get()?.count ?? 0

/** Names of its members, in the order in which they came. */
export const membersOf = (db: Db, id: string): string[] =>
  db
    .select()
    .from(bondMembers)
    .where(eq(bondMembers.bond, id))
    .orderBy(asc(bondMembers.number))
    .all()
    .map((row) => row.interface)

export function known(db: Db, id: string): BondRow {
  const row = db.select().from(bonds).where(eq(bonds.id, id)).get()
  if (row === undefined) throw notFound('bond', shown(id))
  return row
}

export function toBond(
  { id, name, mode, mtu }: Omit<BondRow, 'number'>,
  members: readonly string[],
  now?: Standing,
): Bond {
  const states = members.map((member) => ({ interface: member, state: memberState(now?.members.get(member)) }))
  return { id, name, mode, mtu, active_slave: now?.active ?? '', members: states }
}

/** `newId` is for a bond that is given none; `max` the most that there may be. */
export function createBond(
  tx: Db,
  { id, name, mode, mtu = DEFAULT_MTU }: BondInput,
  newId: string,
  max: number,
): Change<{ status: 'created'; bond: Bond }> {
  const row = { id: id ?? newId, name, mode, mtu }
  const same = allBonds(tx).find((other) => other.id === row.id || other.name === name)
  if (same) throw alreadyExists(same.name === name ? `bond ${name}` : `bond with id ${same.id}`)
  if (bridgeNames(tx).includes(name)) throw conflict('IN_USE', `${name} is a bridge`)
  if (bondCount(tx) >= max) throw limitReached('bonds', max)
  tx.insert(bonds).values(row).run()
  const bond = toBond(row, [])
  return {
    result: { status: 'created', bond },
    touch: [bondRef(row.id)],
    events: [{ type: 'bond.created', resource: resource(row.id), data: bond }],
  }
}

/** Its members are released, and come up again if they were up before. */
export function deleteBond(tx: Db, id: string, live: BondLive): Change<{ status: 'deleted'; id: string }> {
  const { name } = known(tx, id)
  const device = live.devices.find((it) => it.name === name)
  const holder = device ? holderOf(tx, device, live.devices) : storedBridge(tx, name)
  if (holder !== undefined) throw conflict('IN_USE', `bond ${name} is in use: it is a port of ${holder}`)
  const upper = device && live.devices.find(({ over }) => over === device.index)
  if (upper) throw conflict('IN_USE', `bond ${name} is in use: ${upper.name} lies on it`)
  const address = device && addressOf(device, live)
  if (address !== undefined) throw conflict('IN_USE', `bond ${name} is in use: it has the address ${address}`)
  const members = membersOf(tx, id)
  tx.delete(bondMembers).where(eq(bondMembers.bond, id)).run()
  tx.delete(bonds).where(eq(bonds.id, id)).run()
  return {
    result: { status: 'deleted', id },
    touch: [bondRef(id), ...members.map(memberRef)],
    events: [{ type: 'bond.deleted', resource: resource(id), data: { id } }],
  }
}

/** Puts a device into a bond; once more for one that is in it changes nothing. */
export function addMember(
  tx: Db,
  { id, interface: name }: Membership,
  live: BondLive,
): Change<{ status: 'added' } & Membership> {
  known(tx, id)
  const device = live.devices.find((it) => it.name === name)
  if (device === undefined) throw badRequest(`interface: ${name} does not exist on this node`)
  if (name === 'lo' || device.kind === 'bridge' || device.kind === 'bond') {
    throw badRequest(`interface: ${name} cannot be a member of a bond`)
  }
  if (!membersOf(tx, id).includes(name)) {
    refuseUsed(tx, device, live)
    tx.insert(bondMembers).values({ bond: id, interface: name, wasUp: device.up }).run()
  }
  const data = { id, interface: name }
  return {
    result: { status: 'added', ...data },
    touch: [memberRef(name)],
    events: [{ type: 'bond_member.added', resource: resource(id), data }],
  }
}

function refuseUsed(tx: Db, device: Device, live: BondLive): void {
  const { name } = device
  const holder = holderOf(tx, device, live.devices)
  if (holder !== undefined) throw conflict('IN_USE', `${name} is a port of ${holder}`)
  if (live.force) return
  const silent = 'fall silent in a bond; force=1 insists'
  if (name === live.uplink) throw conflict('CUTS_OFF', `${name} is the node's uplink, whose addresses ${silent}`)
  const address = addressOf(device, live)
  if (address !== undefined) throw conflict('CUTS_OFF', `${name} has the address ${address}, and addresses ${silent}`)
}

export function removeMember(
  tx: Db,
  { id, interface: name }: Membership,
  live: BondLive,
): Change<{ status: 'removed' } & Membership> {
  const bond = known(tx, id)
  const members = membersOf(tx, id)
  if (!members.includes(name)) throw lacks(`bond ${bond.name}`, `member ${shown(name)}`)
  if (members.length === 1 && carriesNode(tx, bond, live) && !live.force) {
    const why = `the node may be managed through ${bond.name}; without ${name} it has no member`
    throw conflict('CUTS_OFF', `${why}, which may cut you off; force=1 insists`)
  }
  tx.delete(bondMembers).where(eq(bondMembers.interface, name)).run()
  const data = { id, interface: name }
  return {
    result: { status: 'removed', ...data },
    touch: [memberRef(name)],
    events: [{ type: 'bond_member.removed', resource: resource(id), data }],
  }
}

/** `now` is how the members stand, for the event. */
export function setMtu(
  tx: Db,
  id: string,
  mtu: number,
  now?: Standing,
): Change<{ status: 'updated'; id: string; mtu: number }> {
  const row = known(tx, id)
  tx.update(bonds).set({ mtu }).where(eq(bonds.id, id)).run()
  return {
    result: { status: 'updated', id, mtu },
    touch: [bondRef(id)],
    events: [{ type: 'bond.updated', resource: resource(id), data: toBond({ ...row, mtu }, membersOf(tx, id), now) }],
  }
}

/** The bond is the uplink itself, or a port of the bridge that is or that serves the management. */
function carriesNode(tx: Db, { name }: BondRow, { devices, uplink }: BondLive): boolean {
  const device = devices.find((it) => it.name === name)
  const bridge = device ? holderOf(tx, device, devices) : storedBridge(tx, name)
  return name === uplink || (bridge !== undefined && (bridge === MANAGEMENT_BRIDGE || bridge === uplink))
}

const storedBridge = (db: Db, name: string): string | undefined =>
  db.select().from(ports).where(eq(ports.interface, name)).get()?.bridge

/** An address that somebody gave the device; those of fe80::/10 the kernel makes for every device that is up. */
const addressOf = ({ index }: Device, { addresses }: BondLive): string | undefined =>
  addresses.find((it) => it.index === index && !/^fe[89ab]/.test(it.cidr))?.cidr
