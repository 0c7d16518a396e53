import type { AreaStates } from '../areas.ts'
import { notAvailable } from '../errors.ts'
import type { Gate } from './gate.ts'

/**
 * D1 step 10: an area, or a part of one, that is off on this node answers 503 on its prefixes. Why it is off may name what the
 * node is made of: that hears who has shown an operator's credential, not a tenant and nobody on a public path.
 */
export const subsystem =
  (states: AreaStates): Gate =>
  ({ path, caller }) => {
    const off = path === undefined ? undefined : states.offAt(path)
    if (off === undefined) return undefined
    return notAvailable(off.name, caller === undefined || caller.kind === 'tenant' ? undefined : off.reason)
  }
