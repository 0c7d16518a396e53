import type { AreaStates } from '../areas.ts'
import { notAvailable } from '../errors.ts'
import type { Gate } from './gate.ts'

/** D1 step 10: an area that is off on this node answers 503 on its prefixes. */
export const subsystem =
  (states: AreaStates): Gate =>
  ({ path }) => {
    const area = path === undefined ? undefined : states.owner(path)
    return area === undefined || states.reasonOff(area) === undefined ? undefined : notAvailable(area)
  }
