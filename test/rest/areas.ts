/** Areas that exist in tests only. Their handlers note that they were reached, and answer 200. */
import type { FastifyReply, FastifyRequest, HTTPMethods } from 'fastify'
import type { TSchema } from 'typebox'
import { type AreaPlugin, defineArea } from '../../core/area.ts'
import type { KeyResolver } from '../../core/gates/bearer.ts'

export interface ProbeRoute {
  method: HTTPMethods
  /** Below /api/v1, with `:parameters`. */
  path: string
  access?: 'tenant'
  strict?: true
  body?: TSchema
  response?: Record<number, TSchema>
  /** What the handler answers or throws; without it `{status: 'updated', id: 'probe'}`. */
  answer?: (request: FastifyRequest, reply: FastifyReply) => unknown
}

export interface Hit {
  method: string
  /** The route that the router chose. */
  route: string
  params: Record<string, string>
  caller: string | undefined
  /** As it came over the wire. */
  url: string
}

export interface Probe {
  plugin: AreaPlugin
  hits: Hit[]
}

export function probe(name: string, prefixes: readonly string[], routes: readonly ProbeRoute[]): Probe {
  const hits: Hit[] = []
  const plugin = defineArea(import.meta.url, {
    name,
    prefixes,
    routes(app) {
      for (const { method, path, access, strict, body, response, answer } of routes) {
        app.route({
          method,
          url: path,
          config: { ...(access && { access }), ...(strict && { strict }) },
          schema: { summary: `${method} ${path}`, ...(body && { body }), ...(response && { response }) },
          handler: async (request, reply) => {
            hits.push({
              method,
              route: path,
              params: request.params as Record<string, string>,
              caller: request.caller?.kind,
              url: request.raw.url ?? '',
            })
            return answer === undefined ? { status: 'updated', id: 'probe' } : answer(request, reply)
          },
        })
      }
    },
  })
  return { plugin, hits }
}

const of = (access: 'tenant' | undefined, ...routes: [HTTPMethods, string][]): ProbeRoute[] =>
  routes.map(([method, path]) => ({ method, path, ...(access && { access }) }))

/** As the specification lists them: what a tenant's key may call, and what is the operator's. */
export const TENANT_ROUTES: readonly ProbeRoute[] = [
  ...of(
    'tenant',
    ['GET', '/tenant/:id'],
    ['GET', '/tenant/:id/quota'],
    ['GET', '/tenant/:id/keys'],
    ['POST', '/tenant/:id/keys'],
    ['DELETE', '/tenant/:id/keys/:kid'],
    ['GET', '/tenant/:id/networks'],
    ['GET', '/billing/tenants/:id'],
  ),
  ...of(
    undefined,
    ['GET', '/tenant'],
    ['POST', '/tenant'],
    ['PUT', '/tenant/:id'],
    ['DELETE', '/tenant/:id'],
    ['PUT', '/tenant/:id/quota'],
    ['POST', '/tenant/:id/networks'],
    ['POST', '/billing/tenants/:id/suspend'],
    ['POST', '/billing/tenants/:id/resume'],
    ['POST', '/billing/tenants/:id/limit'],
    ['POST', '/billing/tenants/:id/unlimit'],
  ),
]

/** The five routes that need no Cluster feature and are never frozen, and others of the cluster. */
export const CLUSTER_FIVE: readonly ProbeRoute[] = of(
  undefined,
  ['GET', '/cluster/status'],
  ['GET', '/cluster/join-codes'],
  ['DELETE', '/cluster/join-codes/:id'],
  ['DELETE', '/cluster/members/:id'],
  ['POST', '/cluster/leave'],
)
export const CLUSTER_ROUTES: readonly ProbeRoute[] = [
  ...CLUSTER_FIVE,
  ...of(undefined, ['GET', '/cluster'], ['GET', '/cluster/state'], ['POST', '/cluster/join']),
]

/** One read, one write, one below for every gated prefix. */
export const GATED: readonly { title: string; capability: string; paths: readonly string[] }[] = [
  { title: 'Private Networks', capability: 'private_networks', paths: ['/networks', '/networks/:id'] },
  { title: 'Private Networks', capability: 'private_networks', paths: ['/routed-addresses', '/routed-addresses/:id'] },
  { title: 'DNS', capability: 'dns', paths: ['/dns/zones', '/dns/zones/:id'] },
  { title: 'DHCP', capability: 'dhcp', paths: ['/dhcp/leases', '/dhcp/leases/:id'] },
  { title: 'VXLAN', capability: 'vxlan', paths: ['/vxlan/networks', '/vxlan/networks/:vni'] },
  { title: 'Load Balancer', capability: 'load_balancer', paths: ['/lb', '/lb/:id', '/lb/:id/backends'] },
  { title: 'BGP', capability: 'bgp', paths: ['/bgp/neighbors', '/bgp/neighbors/:addr'] },
  { title: 'Gateway HA', capability: 'gateway_ha', paths: ['/gateway/status', '/gateway/snat', '/gateway/snat/:id'] },
  { title: 'Bandwidth shaping', capability: 'bandwidth_shaping', paths: ['/bandwidth', '/bandwidth/pools/:id'] },
]
export const GATED_ROUTES: readonly ProbeRoute[] = GATED.flatMap(({ paths }) =>
  paths.flatMap((path) => of(undefined, ['GET', path], ['POST', path], ['PUT', path], ['DELETE', path])),
)

export const OWN = 'ten-aaaaaaaaaaaa'
export const OTHER = 'ten-bbbbbbbbbbbb'
const SECRET = 'S3cretS3cretS3cretS3cretS3cret-_'
/** `tk_` keys that `tenantKeys` knows. */
export const TENANT_KEY = `tk_a1_${SECRET}`
export const SUSPENDED_KEY = `tk_s1_${SECRET}`
export const REVOKED_KEY = `tk_r1_${SECRET}`

/** To be put into `agent.credentials.keys` under `tk`. */
export const tenantKeys: KeyResolver = (id, secret) => {
  if (secret !== SECRET || (id !== 'a1' && id !== 's1')) return undefined
  return { kind: 'tenant', label: `key-${id}`, tenantId: OWN, suspended: id === 's1' }
}
