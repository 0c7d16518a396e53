/** The devices of br-work that programs guard, and those that nobody can guard. */
import { WORK_BRIDGE } from '../../numbers.ts'
import type { Sides } from './gate.ts'
import type { Role } from './links.ts'

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

/** The ports that frames may pass by, and those of the bridge that carry nothing. */
export function sidesOf(guarded: Iterable<Guarded>, wanted: ReadonlyMap<number, Guarded>): Sides {
  const open = new Map(portsOf(guarded))
  return { open, shut: new Map(portsOf(wanted.values()).filter(([ifindex]) => !open.has(ifindex))) }
}

const portsOf = (devices: Iterable<Guarded>): [number, string][] =>
  [...devices].flatMap(({ ifindex, name, role }) => (role === 'host' ? [] : [[ifindex, name] as [number, string]]))
