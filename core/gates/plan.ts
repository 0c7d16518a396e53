import { forbidden } from '../errors.ts'
import { planGate } from '../licence/plan.ts'
import { type LicenceView, licenceRefusal } from '../licence/state.ts'
import type { Gate } from './gate.ts'

/** D1 step 7: a prefix that the plan does not grant is closed, reads and unknown paths included. */
export const plan =
  (licence: () => LicenceView): Gate =>
  ({ path, request, caller }) => {
    const needed = path === undefined ? undefined : planGate(request.method, path)
    const refusal = needed && licenceRefusal(licence(), needed)
    return refusal && forbidden('NOT_IN_PLAN', caller?.kind === 'tenant' ? refusal.tenant : refusal.operator)
  }
