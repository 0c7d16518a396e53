/** All that the node lists over REST, as rows of the model: without what changes by itself, ids of others by their names. */
import type { Call } from '../agent.ts'
import { P } from './kind.ts'
import { COUNTED } from './kinds/tenancy.ts'
import type { Fields, Listed, Listing, Model } from './model.ts'

// biome-ignore lint/suspicious/noExplicitAny: what a list holds is compared as it is
type Any = any

/** Counted, measured, or told of in another list. */
const VOLATILE = new Set(['updated_at', 'last_used_at', 'serial', 'soa', 'used', 'free', 'not_enforced', 'not_applied'])

const row = (id: unknown, { ...fields }: Any, more: Fields = {}): Listed => {
  for (const key of Object.keys(fields)) if (VOLATILE.has(key)) delete fields[key]
  delete fields.id
  return { id: String(id), fields: { ...fields, ...more } }
}

/** @throws Error when something is not answered with 200, or what is derived does not follow from the rest */
export async function list(call: Call, model: Model, withBgp: boolean): Promise<Listing> {
  const get = async (path: string, key: string): Promise<Any> => {
    const { status, body, text } = await call('GET', path.startsWith('/control') ? path : `${P}${path}`)
    if (status !== 200) throw new Error(`GET ${path}: ${status} ${text}`)
    return body[key]
  }
  const out = new Map<string, Listed[]>()
  const put = (of: string, rows: readonly Listed[]) => void out.set(of, [...(out.get(of) ?? []), ...rows])
  const all = async (
    of: string,
    path: string,
    key: string,
    id: (one: Any) => unknown,
    more: (one: Any) => Fields = () => ({}),
  ) =>
    put(
      of,
      (await get(path, key)).map((one: Any) => row(id(one), one, more(one))),
    )
  const byId = ({ id }: Any) => id
  /** The soak gives these their names, so they are known also while it does not know their ids. */
  const named = (of: string, id: unknown): string => {
    const name = out.get(of)?.find((one) => one.id === String(id))?.fields.name ?? ''
    return String(name).replace('.example.', '')
  }
  const tenant = (one: Any) => {
    const name = named('tenants', one.tenant_id)
    delete one.tenant_id
    return { tenant: name }
  }

  await all('tenants', '/tenant', 'tenants', byId)
  for (const of of ['keys', 'quotas_of_tenants', 'billing']) put(of, [])
  for (const { id } of out.get('tenants') ?? []) await tenantParts(id)
  await all('networks', '/networks', 'networks', byId, tenant)
  put('endpoints', [])
  for (const { id } of out.get('networks') ?? []) await endpointsOf(id)
  await all('ranges', '/routed-addresses', 'ranges', byId, tenant)
  // What they are attached to stands in the lists of endpoints and addresses.
  const machines: Any[] = await get('/control/v1/compute/machines', 'machines')
  put(
    'machines',
    machines.map(({ name, created_at }) => row(name, { created_at })),
  )
  await ipam()
  await all('zones', '/dns/zones', 'zones', byId)
  await all('records', '/dns/records', 'records', byId, ({ zone_id }) => ({
    zone: named('zones', zone_id),
    zone_id: undefined,
  }))
  await all('routes', '/routes', 'routes', byId)
  await all('policies', '/routes/rules', 'rules', byId)
  await all('forwards', '/forward', 'port_forwards', byId)
  const nat: Any[] = await get('/gateway/snat', 'nat_rules')
  put(
    'snats',
    nat.filter(({ type }) => type === 'snat').map((one) => row(one.id, one)),
  )
  put('overlays', [])
  put('peers', [])
  for (const { vni, peers, ...one } of await get('/vxlan/networks', 'vxlan_networks')) {
    put('overlays', [row(vni, one)])
    put(
      'peers',
      peers.map((peer: Any) => row(peer.host, peer, { overlay: model.named('overlays', vni) })),
    )
  }
  await all('floats', '/float', 'floating_ips', byId)
  const bridges: Any[] = await get('/bridges', 'bridges')
  put(
    'bridges',
    bridges.filter(({ name }) => !['br-work', 'br-mgmt'].includes(name)).map((one) => row(one.name, one)),
  )
  put('gateway', [{ id: 'own', fields: { state: await get('/gateway/status', 'local_state') } }])
  await all('rules', '/rules', 'rules', byId)
  const settings: Any[] = await get('/control/v1/config', 'config')
  const hooks = settings.find(({ key }) => key === 'bridge_netfilter')
  put('settings', [{ id: 'own', fields: { bridge_netfilter: hooks?.value } }])
  put('default', [{ id: 'own', fields: { action: await get('/rules/default', 'default_action') } }])
  put('vips', [])
  put('backends', [])
  for (const { backends, ...vip } of await get('/lb', 'load_balancers')) {
    put('vips', [row(vip.id, vip)])
    const draining = backends.filter((one: Any) => one.state !== 'draining')
    put(
      'backends',
      draining.map(({ active_conns: _, ...one }: Any) => row(`${vip.id}/${one.id}`, one, { vip: vip.id })),
    )
  }
  await all('vlans', '/vlan', 'vlans', ({ vlan_id }) => vlan_id)
  await all('macbinds', '/macbind', 'bindings', ({ mac }) => mac)
  await all('limits', '/bandwidth', 'limits', byId)
  put('shared', [])
  put('members', [])
  for (const { ID, Name, TotalBps, Members } of await get('/bandwidth', 'pools')) {
    put('shared', [row(ID, { name: Name, total_bps: TotalBps })])
    put(
      'members',
      Members.filter((mac: string) => !isByLimit(ID, mac)).map((mac: string) => row(`${ID}/${mac}`, { pool: ID })),
    )
  }
  const quotas: Any[] = await get('/bandwidth/quotas', 'quotas')
  put(
    'quotas',
    quotas.map(({ mac, monthly_limit_bytes, action, enforced }) => row(mac, { monthly_limit_bytes, action, enforced })),
  )
  if (withBgp) await bgp()
  return out

  /** A member by a limit alone: where it is one by itself too, the list does not tell. */
  function isByLimit(pool: string, mac: string): boolean {
    const named = out.get('limits')?.some(({ fields }) => fields.pool_id === pool && fields.target_mac === mac)
    return named === true && !model.has('members', `${pool}/${mac}`)
  }

  async function tenantParts(id: string): Promise<void> {
    const name = named('tenants', id)
    put(
      'keys',
      (await get(`/tenant/${id}/keys`, 'keys')).map((one: Any) =>
        row(one.id, one, { tenant: name, tenant_id: undefined }),
      ),
    )
    const { limits, usage } = await get(`/tenant/${id}/quota`, 'quota')
    const counted = Object.entries(COUNTED).flatMap(([what, count]) => {
      const many = count(model, name)
      return model.has('tenants', name) && usage[what] !== many
        ? [`${what}: ${usage[what]}, but there are ${many}`]
        : []
    })
    put('quotas_of_tenants', [{ id: name, fields: limits, ...(counted.length > 0 && { wrong: counted.join() }) }])
    const { state, block_traffic, limit_bps } = await get(`/billing/tenants/${id}`, 'billing')
    put('billing', [{ id: name, fields: { state, block_traffic, limit_bps } }])
  }

  async function endpointsOf(id: string): Promise<void> {
    const reserved: Any[] = await get('/control/v1/dhcp/reservations', 'reservations')
    const endpoints: Any[] = await get(`/networks/${id}/endpoints`, 'endpoints')
    const network = named('networks', id)
    put(
      'endpoints',
      endpoints
        .filter(({ state }) => state === 'bound')
        .map(({ id: own, ip, mac, bound_at }) => {
          const is = reserved.some((one) => one.network_id === id && one.ip === ip && one.mac === mac)
          return row(own, { ip, mac, bound_at, network, ...(is && { reserved: true }) })
        }),
    )
  }

  /** Pools of networks and what is allocated there follow from the networks. */
  async function ipam(): Promise<void> {
    const pools: Any[] = await get('/ipam/pools', 'pools')
    const networks = out.get('networks') ?? []
    const isOf = ({ subnet, name }: Any) =>
      networks.some(({ fields }) => fields.cidr === subnet && fields.name === name)
    const [ofNetworks, own] = [pools.filter(isOf), pools.filter((pool) => !isOf(pool))]
    if (ofNetworks.length !== networks.length)
      throw new Error(`${networks.length} networks have ${ofNetworks.length} pools`)
    put(
      'pools',
      own
        .map((one) => row(one.id, one, tenant(one)))
        .map(({ id, fields: { tenant_id: _, ...fields } }) => ({ id, fields })),
    )
    const ids = new Set(ofNetworks.map(({ id }) => id))
    const allocations: Any[] = await get('/ipam/allocations', 'allocations')
    const bound = allocations.filter(({ pool_id }) => ids.has(pool_id)).length
    if (bound !== out.get('endpoints')?.length)
      throw new Error(`${out.get('endpoints')?.length} endpoints have ${bound} allocations`)
    put(
      'allocations',
      allocations
        .filter(({ pool_id }) => !ids.has(pool_id))
        .map(({ pool_id, ...one }) => row(one.id, one, { pool: named('pools', pool_id) })),
    )
  }

  async function bgp(): Promise<void> {
    const neighbors: Any[] = await get('/bgp/neighbors', 'neighbors')
    put(
      'neighbors',
      neighbors.map(({ peer_addr, peer_as, local_as, bfd_enabled }) =>
        row(peer_addr, { peer_as, local_as, bfd_enabled }),
      ),
    )
    const routes: Any[] = await get('/bgp/routes', 'routes')
    put(
      'announcements',
      routes.filter(({ source }) => source === 'announced').map(({ prefix }) => row(prefix, { prefix })),
    )
    await all('prefix_lists', '/bgp/prefix-lists', 'prefix_lists', ({ name }) => name)
    await all('route_maps', '/bgp/route-maps', 'route_maps', ({ name }) => name)
    put('neighbor_policies', [])
    for (const dir of ['import', 'export']) {
      const maps: Record<string, string> = await get('/bgp/policy', dir)
      put(
        'neighbor_policies',
        Object.entries(maps).map(([neighbor, route_map]) => row(`${dir}/${neighbor}`, { route_map })),
      )
    }
  }
}
