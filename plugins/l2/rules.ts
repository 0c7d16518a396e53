/**
 * Domain rules of bridges and their ports. What the kernel has at the moment comes in as `Live`, because a port may have
 * been put into a bridge by anybody.
 */
import { asc, eq } from 'drizzle-orm'
import type { Change, Db } from '../../core/area.ts'
import { alreadyExists, badRequest, conflict, lacks, notFound } from '../../core/errors.ts'
import { MANAGEMENT_BRIDGE, WORK_BRIDGE } from '../../dataplane/numbers.ts'
import type { Bridge, Port } from './schemas.ts'
import { bondMembers, bonds, bridges, ports } from './tables.ts'

export const MANAGED: readonly string[] = [MANAGEMENT_BRIDGE, WORK_BRIDGE]

/** A device as the kernel has it now. */
export interface Device {
  index: number
  name: string
  /** Index of the bridge or bond that it is a port of. */
  master?: number
  /** Index of the device that it lies on. */
  over?: number
  kind?: string
  up: boolean
}

/** What these rules must know of the node. */
export interface Live {
  devices: readonly Device[]
  /** The public interface; '' when the node has none. */
  uplink: string
  /** The caller insists (`?force=1`). */
  force: boolean
}

export const bridgeRef = (name: string) => ({ area: 'l2', id: `bridge/${name}` })
export const portRef = (name: string) => ({ area: 'l2', id: `port/${name}` })
const resource = (bridge: string) => `/api/v1/bridges/${bridge}`

/** Names of all bridges, the managed ones first. */
export const bridgeNames = (db: Db): string[] => [
  ...MANAGED,
  ...db
    .select()
    .from(bridges)
    .orderBy(asc(bridges.id))
    .all()
    .map(({ name }) => name),
]

/** The bridge with its ports as they are now, whoever put them there. */
export function withPorts(name: string, devices: readonly Device[]): Bridge {
  const index = devices.find((device) => device.name === name)?.index
  const members = index === undefined ? [] : devices.filter(({ master }) => master === index)
  return { name, interfaces: members.map((device) => device.name).sort() }
}

export function createBridge(tx: Db, name: string): Change<{ status: 'created'; bridge: Bridge }> {
  if (bridgeNames(tx).includes(name)) throw alreadyExists(`bridge ${name}`)
  if (tx.select().from(bonds).where(eq(bonds.name, name)).get()) throw conflict('IN_USE', `${name} is a bond`)
  tx.insert(bridges).values({ name }).run()
  const bridge = { name, interfaces: [] }
  return {
    result: { status: 'created', bridge },
    touch: [bridgeRef(name)],
    events: [{ type: 'bridge.created', resource: resource(name), data: bridge }],
  }
}

export function deleteBridge(
  tx: Db,
  name: string,
  { devices }: Pick<Live, 'devices'>,
): Change<{ status: 'deleted'; name: string }> {
  known(tx, name)
  if (MANAGED.includes(name)) throw conflict('MANAGED', `bridge ${name} is managed by the node and stays`)
  const stored = tx.select().from(ports).where(eq(ports.bridge, name)).all()
  const used = new Set([...stored.map((port) => port.interface), ...withPorts(name, devices).interfaces])
  if (used.size > 0) throw conflict('IN_USE', `bridge ${name} is in use: remove its ports first (${first(used)})`)
  tx.delete(bridges).where(eq(bridges.name, name)).run()
  return {
    result: { status: 'deleted', name },
    touch: [bridgeRef(name)],
    events: [{ type: 'bridge.deleted', resource: resource(name), data: { name } }],
  }
}

/** Puts a device into a bridge; where it is one of its ports already, this makes the port ours. */
export function addPort(tx: Db, { bridge, interface: name }: Port, live: Live): Change<{ status: 'added' } & Port> {
  known(tx, bridge)
  const device = live.devices.find((it) => it.name === name)
  if (device === undefined) throw badRequest(`interface: ${name} does not exist on this node`)
  if (name === 'lo' || device.kind === 'bridge') throw badRequest(`interface: ${name} cannot be a port of a bridge`)
  const holder = holderOf(tx, device, live.devices)
  if (holder !== undefined && holder !== bridge) throw conflict('IN_USE', `${name} is a port of ${holder}`)
  if (name === live.uplink && !live.force) {
    throw conflict('CUTS_OFF', `${name} is the node's uplink, whose addresses fall silent in a bridge; force=1 insists`)
  }
  tx.insert(ports).values({ bridge, interface: name }).onConflictDoNothing().run()
  const port = { bridge, interface: name }
  return {
    result: { status: 'added', ...port },
    touch: [portRef(name)],
    events: [{ type: 'bridge.added', resource: resource(bridge), data: port }],
  }
}

export function removePort(
  tx: Db,
  { bridge, interface: name }: Port,
  { uplink, force }: Pick<Live, 'uplink' | 'force'>,
): Change<{ status: 'removed' } & Port> {
  known(tx, bridge)
  const stored = tx.select().from(ports).where(eq(ports.interface, name)).get()
  if (stored?.bridge !== bridge) throw lacks(`bridge ${bridge}`, `port ${name}`)
  const carriesNode = bridge === MANAGEMENT_BRIDGE || bridge === uplink || name === uplink
  if (carriesNode && !force) {
    throw conflict('CUTS_OFF', `the node may be managed through ${name}; removing it may cut you off; force=1 insists`)
  }
  tx.delete(ports).where(eq(ports.interface, name)).run()
  const port = { bridge, interface: name }
  return {
    result: { status: 'removed', ...port },
    touch: [portRef(name)],
    events: [{ type: 'bridge.removed', resource: resource(bridge), data: port }],
  }
}

function known(db: Db, name: string): void {
  if (!bridgeNames(db).includes(name)) throw notFound('bridge', shown(name))
}

/** Part of a path as an error may repeat it. */
export const shown = (text: string): string => text.replace(/[^\x21-\x7e]/g, '?').slice(0, 64)

/** Name of what the device is a port of, in the store or in the kernel. */
export function holderOf(tx: Db, { name, master }: Device, devices: readonly Device[]): string | undefined {
  const stored = tx.select().from(ports).where(eq(ports.interface, name)).get()
  if (stored) return stored.bridge
  const bond = tx
    .select({ name: bonds.name })
    .from(bondMembers)
    .innerJoin(bonds, eq(bonds.id, bondMembers.bond))
    .where(eq(bondMembers.interface, name))
    .get()
  if (bond) return bond.name
  return master === undefined ? undefined : devices.find(({ index }) => index === master)?.name
}

const first = (names: ReadonlySet<string>): string => {
  const [some = [], more = 0] = [[...names].sort().slice(0, 5), names.size - 5]
  return more > 0 ? `${some.join(', ')} and ${more} more` : some.join(', ')
}
