import { forbidden } from '../errors.ts'
import { type Gate, isMutation } from './gate.ts'

/**
 * D1 step 6: a tenant's key acts on `/tenant/{own}/…` and `/billing/tenants/{own}/…` only, there only on routes that say
 * `access: 'tenant'`, and while its tenant is suspended it only reads. What no route does is no tenant's to change either.
 * Judged on decoded segments (D40).
 */
export const scope: Gate = ({ caller, path, request }) => {
  if (caller?.kind !== 'tenant') return undefined
  if (!ownPath(path, caller.tenantId)) return OUTSIDE
  const { config, url = '' } = request.routeOptions
  const changes = isMutation(request.method)
  if (request.is404 ? changes : config.access !== 'tenant') {
    const action = request.is404 ? '' : ` (${request.method} ${url.replace(/:(\w+)/g, '{$1}')})`
    return forbidden('OPERATOR_ONLY', `forbidden: this change is reserved for the operator${action}`)
  }
  return caller.suspended && changes ? SUSPENDED : undefined
}

function ownPath(path: string | undefined, tenantId: string | undefined): boolean {
  if (path === undefined || tenantId === undefined) return false
  const [, first, second, third] = path.split('/')
  return first === 'billing' ? second === 'tenants' && third === tenantId : first === 'tenant' && second === tenantId
}

const OUTSIDE = forbidden('TENANT_SCOPE', 'forbidden: a tenant key may only act on its own tenant')
const SUSPENDED = forbidden('TENANT_SUSPENDED', 'tenant suspended')
