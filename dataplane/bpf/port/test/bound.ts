/** MAC bindings, as the reference judges them. */
import { LOCK_HARD } from '../../../numbers.ts'
import type { ReasonName } from '../reason.ts'
import type { Frame } from './frame.ts'
import type { World } from './world.ts'

/** A MAC that no endpoint has. What a soft lock is against is noted in `soft`. */
export function judgeMacbind(world: World, ifindex: number, frame: Frame, soft: ReasonName[]): ReasonName | undefined {
  const lock = Math.max(world.locks.get(ifindex) ?? 0, world.locks.get(0) ?? 0)
  const row = world.macbinds.get(frame.from)
  if (lock === 0 || (row && isAdmitted(row, ifindex, frame))) return undefined
  if (lock === LOCK_HARD) return 'macbind'
  soft.push('macbind_soft')
  return undefined
}

/** An endpoint's MAC: bindings that name its place hold, and the lock of a port at which it is not yet. */
export function judgeNamedMacbind(
  world: World,
  ifindex: number,
  frame: Frame,
  atHome: boolean,
  soft: ReasonName[],
): ReasonName | undefined {
  const row = world.macbinds.get(frame.from)
  if (row && isAdmitted(row, ifindex, frame)) return undefined
  const own = row && row.ifindex !== 0 ? row.lock : 0
  const lock = Math.max(own, atHome ? 0 : (world.locks.get(ifindex) ?? 0))
  if (lock === LOCK_HARD) return 'macbind'
  if (lock !== 0) soft.push('macbind_soft')
  return undefined
}

const isAdmitted = (row: { ifindex: number; vlan: number }, ifindex: number, { vids }: Frame): boolean =>
  (row.ifindex === 0 || row.ifindex === ifindex) && (row.vlan === 0 || row.vlan === vids[0])
