import { forbidden } from '../errors.ts'
import { type Gate, isMutation } from './gate.ts'

/**
 * D1 step 6: a tenant's key acts on `/tenant/{own}/…` and `/billing/tenants/{own}/…` only, there only on routes that say
 * `access: 'tenant'`, and while its tenant is suspended it only reads. Judged on decoded segments (D40).
 */
export const scope: Gate = ({ caller, path, request }) => {
  if (caller?.kind !== 'tenant') return undefined
  if (!ownPath(path, caller.tenantId)) return OUTSIDE
  const config = request.routeOptions.config
  if (!request.is404 && config.access !== 'tenant') {
    const action = `${request.method} ${request.routeOptions.url ?? ''}`
    return forbidden('OPERATOR_ONLY', `forbidden: this change is reserved for the operator (${action})`)
  }
  return caller.suspended && isMutation(request.method) ? SUSPENDED : undefined
}

function ownPath(path: string | undefined, tenantId: string | undefined): boolean {
  if (path === undefined || tenantId === undefined) return false
  const [, first, second, third] = path.split('/')
  return first === 'billing' ? second === 'tenants' && third === tenantId : first === 'tenant' && second === tenantId
}

const OUTSIDE = forbidden('TENANT_SCOPE', 'forbidden: a tenant key may only act on its own tenant')
const SUSPENDED = forbidden('TENANT_SUSPENDED', 'tenant suspended')
