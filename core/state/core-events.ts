/** The events of the core itself, which carry `area: "core"`. An area declares its own in `events` (core/area.ts). */
import { type TSchema, Type } from 'typebox'
import type { LoadedArea } from '../area.ts'
import { LICENCE_STATES, LicenceShown } from '../licence/schema.ts'
import { StringEnum, Timestamp } from '../schemas.ts'

const OperatorKey = Type.Object({ id: Type.String(), label: Type.String(), created_at: Timestamp })
/** One address (or /64), or how many `more` there were within a moment in which too many were blocked to tell each. */
const Blocked = Type.Union([
  Type.Object({
    address: Type.String(),
    until: Timestamp,
    failures: Type.Integer(),
    transport: StringEnum(['rest', 'grpc', 'events', 'cluster']),
  }),
  Type.Object({ more: Type.Integer() }),
])
const LicenceStanding = StringEnum(['none', ...LICENCE_STATES])
const AgentState = StringEnum(['starting', 'running', 'degraded', 'stopping'])

/** Event type → schema of its data, as in an area's declaration. */
export const coreEvents: Readonly<Record<string, TSchema>> = {
  /** Somebody else changed what is ours in the kernel: what was found (the first 20 of `differing` objects), what was done. */
  'agent.drift': Type.Object({
    repaired: Type.Boolean(),
    added: Type.Integer(),
    changed: Type.Integer(),
    removed: Type.Integer(),
    differing: Type.Integer(),
    found: Type.Array(Type.Object({ key: Type.String(), state: StringEnum(['missing', 'changed', 'foreign']) })),
    error: Type.Optional(Type.String()),
  }),
  'agent.state_changed': Type.Object({ from: AgentState, to: AgentState, troubles: Type.Array(Type.String()) }),
  'auth.blocked': Blocked,
  'auth.created': OperatorKey,
  'auth.deleted': Type.Object({ id: Type.String() }),
  'auth.updated': Type.Object({ address: Type.String(), blocked: Type.Boolean() }),
  'license.state_changed': Type.Object({
    from: LicenceStanding,
    to: LicenceStanding,
    /** Bound to other hardware than this: also this alone is a change. */
    hardware_grace: Type.Boolean(),
  }),
  'license.updated': LicenceShown,
  /** A licence whose signature is bad, installed or offered. */
  'license.violation': Type.Object({ error: Type.String() }),
}

export interface DeclaredEvent {
  type: string
  area: string
  data: TSchema
}

/** Every event type that the agent may send, the core's first. @throws Error when two declare the same type */
export function declaredEvents(areas: readonly Pick<LoadedArea, 'name' | 'events'>[]): DeclaredEvent[] {
  const declared = new Map<string, DeclaredEvent>()
  for (const { name: area, events } of [{ name: 'core', events: coreEvents }, ...areas]) {
    for (const [type, data] of Object.entries(events ?? {})) {
      const other = declared.get(type)
      if (other !== undefined) throw new Error(`event ${type} is declared by ${other.area} and by ${area}`)
      declared.set(type, { type, area, data })
    }
  }
  return [...declared.values()]
}
