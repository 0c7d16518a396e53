import type { AreaStates } from '../areas.ts'
import { notAvailable } from '../errors.ts'
import type { Gate } from './gate.ts'

/** D1 step 10: an area, or a part of one, that is off on this node answers 503 on its prefixes. */
export const subsystem =
  (states: AreaStates): Gate =>
  ({ path }) => {
    const off = path === undefined ? undefined : states.offAt(path)
    return off === undefined ? undefined : notAvailable(off)
  }
