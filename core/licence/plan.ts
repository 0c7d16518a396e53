/**
 * The plan: which features a licence can grant, and which API paths need one of them.
 * Source: the "Plan gating" table of the API specification and decision D22. Asked on every request.
 */

export type Capability =
  | 'private_networks'
  | 'dns'
  | 'dhcp'
  | 'vxlan'
  | 'load_balancer'
  | 'bgp'
  | 'gateway_ha'
  | 'bandwidth_shaping'
  | 'cluster'

export interface PlanGate {
  readonly capability: Capability
  /** Name of the feature as messages show it. */
  readonly title: string
  /** Below /api/v1. `/lb` covers the path itself and all below it; `/dns/` only what begins with it. */
  readonly prefixes: readonly string[]
}

const CLUSTER: PlanGate = { capability: 'cluster', title: 'Cluster', prefixes: ['/cluster'] }

export const PLAN: readonly PlanGate[] = [
  { capability: 'private_networks', title: 'Private Networks', prefixes: ['/networks', '/routed-addresses'] },
  { capability: 'dns', title: 'DNS', prefixes: ['/dns/'] },
  { capability: 'dhcp', title: 'DHCP', prefixes: ['/dhcp/'] },
  { capability: 'vxlan', title: 'VXLAN', prefixes: ['/vxlan/'] },
  { capability: 'load_balancer', title: 'Load Balancer', prefixes: ['/lb'] },
  { capability: 'bgp', title: 'BGP', prefixes: ['/bgp/'] },
  { capability: 'gateway_ha', title: 'Gateway HA', prefixes: ['/gateway/'] },
  { capability: 'bandwidth_shaping', title: 'Bandwidth shaping', prefixes: ['/bandwidth'] },
  CLUSTER,
]

export const CAPABILITIES: readonly Capability[] = PLAN.map((gate) => gate.capability)

/** First path segment, with its slash → its gate, and whether the segment alone is gated too. */
const BY_SEGMENT: ReadonlyMap<string, { gate: PlanGate; alone: boolean }> = new Map(
  PLAN.flatMap((gate) =>
    gate.prefixes.map((prefix) => {
      const alone = !prefix.endsWith('/')
      return [alone ? prefix : prefix.slice(0, -1), { gate, alone }] as const
    }),
  ),
)

/**
 * The feature that a call needs, or undefined when any active plan will do.
 * @param method upper case; matters only for the Cluster routes that need no Cluster feature
 * @param path decoded, below /api/v1, without the query: `/lb/vip1`
 */
export function planGate(method: string, path: string): PlanGate | undefined {
  const end = path.indexOf('/', 1)
  const found = BY_SEGMENT.get(end < 0 ? path : path.slice(0, end))
  if (found === undefined || (end < 0 && !found.alone)) return undefined
  if (found.gate === CLUSTER && clusterExempt(method, path)) return undefined
  return found.gate
}

/**
 * Whether a mutation works even while the licence is frozen: a member can always be removed, leave,
 * and have its join code revoked, so that a frozen node never traps a cluster. Parameters as of `planGate`.
 */
export function frozenExempt(method: string, path: string): boolean {
  if (method === 'POST') return isRoute(path, '/cluster/leave')
  return method === 'DELETE' && (isItem(path, '/cluster/members/') || isItem(path, '/cluster/join-codes/'))
}

function clusterExempt(method: string, path: string): boolean {
  if (method === 'GET' || method === 'HEAD') {
    return isRoute(path, '/cluster/status') || isRoute(path, '/cluster/join-codes')
  }
  return frozenExempt(method, path)
}

/** `path` is `route`, or `route` with a trailing slash (D13). */
function isRoute(path: string, route: string): boolean {
  if (!path.startsWith(route)) return false
  return path.length === route.length || (path.length === route.length + 1 && path.endsWith('/'))
}

/** `path` is one non-empty segment below `parent`, which ends with a slash; a trailing slash is allowed (D13). */
function isItem(path: string, parent: string): boolean {
  if (!path.startsWith(parent)) return false
  const end = path.indexOf('/', parent.length)
  return end < 0 ? path.length > parent.length : end > parent.length && end === path.length - 1
}
