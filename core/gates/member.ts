import { ApiError, unauthorized } from '../errors.ts'
import { type Peers, passedOf } from '../transport/elsewhere.ts'
import type { Gate } from './gate.ts'

/** D102: a call for another member of the cluster is that member's to judge from here on; nobody else's name is repeated. */
export const member =
  (peers: ReadonlySet<Peers>): Gate =>
  (call) => {
    const isOurs = call.path === undefined || !METHODS.has(call.request.method)
    const node = isOurs ? undefined : call.request.headers['x-node']
    if (node === undefined) return undefined
    const all = [...peers]
    if (all.some((one) => one.self() === node)) return undefined
    if (typeof node !== 'string' || !all.some((one) => one.has(node))) return UNKNOWN
    call.member = node
    return undefined
  }

/** In place of the credential, which another member has judged. */
export const introduced: Gate = (call) => {
  call.caller = passedOf(call.request.raw)?.caller
  return call.caller !== undefined || call.request.routeOptions.config.public === true ? undefined : unauthorized()
}

/** No path has another one, at any member. */
const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'])
const UNKNOWN = new ApiError(404, 'NO_SUCH_MEMBER', 'X-Node: no member of the cluster has this name')
