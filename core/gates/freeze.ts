import { forbidden } from '../errors.ts'
import { frozenExempt } from '../licence/plan.ts'
import { type LicenceView, licenceRefusal } from '../licence/state.ts'
import { type Gate, isMutation } from './gate.ts'

/** D1 step 9: without an active licence nothing changes; reads go on, and so does traffic. */
export const freeze =
  (licence: () => LicenceView): Gate =>
  ({ path, request, caller }) => {
    if (!isMutation(request.method)) return undefined
    const subject =
      path === undefined ? request.routeOptions.config.frozen === true : !frozenExempt(request.method, path)
    if (!subject) return undefined
    const refusal = licenceRefusal(licence())
    return refusal && forbidden('FROZEN', caller?.kind === 'tenant' ? refusal.tenant : refusal.operator)
  }
