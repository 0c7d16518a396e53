/** The devices of br-work that programs guard, and those that nobody can guard. */
import type { Link } from '../../netlink/link.ts'
import { WORK_BRIDGE } from '../../numbers.ts'
import type { Sides } from './gate.ts'
import type { Role } from './links.ts'

/** Nobody has it. */
const NO_MAC = '00:00:00:00:00:00'

/** Thrown by what attaches where this node attaches nothing. */
export class Unguardable extends Error {
  override readonly name = 'Unguardable'
}

export interface Guarded {
  name: string
  ifindex: number
  role: Role
}

/** For the operator: what it means that a device of br-work is not guarded. */
export const carriesNothing = (name: string, why: string): string =>
  name === WORK_BRIDGE
    ? `no port of ${WORK_BRIDGE} carries traffic, because ${WORK_BRIDGE} cannot be guarded: ${why}`
    : `port ${name} of ${WORK_BRIDGE} carries no traffic, because it cannot be guarded: ${why}`

/**
 * The ports that frames may pass by, and those of the bridge that carry nothing. Without its programs br-work would hand the
 * node frames that nobody has judged, so that then no port is open.
 */
export function sidesOf(guarded: Iterable<Guarded>, wanted: ReadonlyMap<number, Guarded>): Sides {
  const devices = [...guarded]
  const open = new Map(devices.some(isHost) ? portsOf(devices) : [])
  return { open, shut: new Map(portsOf(wanted.values()).filter(([ifindex]) => !open.has(ifindex))) }
}

const isHost = ({ role }: Guarded): boolean => role === 'host'
const portsOf = (devices: Iterable<Guarded>): [number, string][] =>
  [...devices].flatMap((device) => (isHost(device) ? [] : [[device.ifindex, device.name] as [number, string]]))

/** br-work as programs may redirect to it: not before its own stand. Index 0 and no MAC for none. */
export function legOf(guarded: Iterable<Guarded>, devices: readonly Link[]): { ifindex: number; mac: string } {
  const host = [...guarded].find(isHost)
  const mac = devices.find(({ index }) => index === host?.ifindex)?.mac
  return host === undefined || mac === undefined ? { ifindex: 0, mac: NO_MAC } : { ifindex: host.ifindex, mac }
}
