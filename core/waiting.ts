/** What an answer says of a change that is stored and is not in force yet, because a device is not there. */
import { Type } from 'typebox'
import type { Plane } from '../dataplane/plane.ts'

export const Waiting = Type.Optional(
  Type.String({
    description: 'what keeps it from being in force, such as a device that is not there; absent once it is',
  }),
)

/** Devices that are not there and that entries of `area` wait for. Walks what waits, and nothing else. */
export const awaitedDevices = (plane: Pick<Plane, 'pending'>, area: string): Set<string> =>
  new Set(
    plane.pending().flatMap(({ key, device }) => (device !== undefined && key.startsWith(`${area}/`) ? [device] : [])),
  )

/** `{ pending }` while `device` is among those `awaited`, else nothing; to be spread into an answer. */
export const waitingFor = (awaited: ReadonlySet<string>, device: string | undefined): { pending?: string } =>
  device !== undefined && awaited.has(device) ? { pending: `waiting for device ${device}` } : {}
