/** Tenants, their keys, quotas and billing; networks, endpoints, reservations, machines, routed addresses; IPAM. */
import type { Dice } from '../dice.ts'
import { another, below, type Kind, others, P, removal, wanted } from '../kind.ts'
import type { Effect, Model } from '../model.ts'

const MACHINES = '/control/v1/compute/machines'
const RESERVATIONS = '/control/v1/dhcp/reservations'
const MAX_TENANTS = 4
export const MACS = Array.from({ length: 12 }, (_, n) => `02:00:00:00:10:${(n + 16).toString(16)}`)

/** What each limit of a quota counts. */
export const COUNTED: Readonly<Record<string, (model: Model, tenant: string) => number>> = {
  networks: (model, tenant) => model.where('networks', { tenant }).length,
  endpoints: (model, tenant) => summed(model, 'networks', tenant, (network) => model.where('endpoints', { network })),
  ip_pools: (model, tenant) => model.where('pools', { tenant }).length,
  ip_allocations: (model, tenant) => summed(model, 'pools', tenant, (pool) => model.where('allocations', { pool })),
  keys: (model, tenant) => model.where('keys', { tenant }).length,
}

const summed = (model: Model, of: string, tenant: string, within: (name: string) => readonly string[]): number =>
  model.where(of, { tenant }).reduce((sum, name) => sum + within(name).length, 0)

/** A tenant at times, else nobody. */
const owner = (model: Model, dice: Dice): string => dice.pick(['', '', ...model.names('tenants')])
const ownedBy = (model: Model, tenant: string) => (tenant ? { tenant_id: model.id('tenants', tenant) } : {})
const withNetwork = (model: Model, network: string): Effect[] => [
  ...below(model, 'endpoints', { network }),
  { of: 'networks', name: network },
]
const withPool = (model: Model, pool: string): Effect[] => [
  ...below(model, 'allocations', { pool }),
  { of: 'pools', name: pool },
]
const network = (model: Model, name: string) => `${P}/networks/${model.id('networks', name)}`
const endpoint = (model: Model, name: string) => {
  const of = String(model.of('endpoints').get(name)?.fields.network)
  return `${network(model, of)}/endpoints/${encodeURIComponent(model.id('endpoints', name))}`
}

/** All that a tenant has goes with it. */
/** Each machine has its NIC in one network: with that it goes when a tenant goes. */
const machinesIn = (model: Model, network: string): Effect[] =>
  model
    .where('endpoints', { network })
    .flatMap((name) => model.of('endpoints').get(name)?.fields._machine ?? [])
    .map((name) => ({ of: 'machines', name: String(name) }))

const withTenant = (model: Model, tenant: string): Effect[] => [
  ...below(model, 'keys', { tenant }),
  ...model.where('networks', { tenant }).flatMap((name) => [...machinesIn(model, name), ...withNetwork(model, name)]),
  ...model.where('pools', { tenant }).flatMap((name) => withPool(model, name)),
  ...below(model, 'ranges', { tenant }),
  { of: 'quotas_of_tenants', name: tenant },
  { of: 'billing', name: tenant },
]

export const tenancy: Readonly<Record<string, Kind>> = {
  tenant: {
    propose: (model) => (model.of('tenants').size < MAX_TENANTS ? {} : undefined),
    request: (_, name) => ['POST', `${P}/tenant`, { name }],
    effect: (_, name) => [
      { of: 'tenants', name, fields: { name, status: 'active' } },
      { of: 'quotas_of_tenants', name, id: name, fields: {} },
      { of: 'billing', name, id: name, fields: { state: 'active', block_traffic: false, limit_bps: 0 } },
    ],
    made: ['tenants', (body) => body.tenant.id],
  },
  tenant_gone: removal('tenants', (id) => `${P}/tenant/${id}`, withTenant),
  key: {
    propose: (model, dice) => wanted(another(model, dice, 'tenants')),
    request: ({ on }, name, model) => ['POST', `${P}/tenant/${model.id('tenants', on)}/keys`, { label: name }],
    effect: ({ on }, name) => [{ of: 'keys', name, fields: { tenant: on, label: name } }],
    made: ['keys', (body) => body.key.id],
  },
  key_gone: removal('keys', (id, name, model) => {
    const tenant = model.of('keys').get(name)?.fields.tenant
    return `${P}/tenant/${model.id('tenants', tenant)}/keys/${id}`
  }),
  quota: {
    propose: (model, dice) =>
      wanted(another(model, dice, 'tenants'), {
        limits: { [dice.pick(Object.keys(COUNTED))]: dice.pick([0, 1, 2, 5, 50]) },
      }),
    request: ({ on, limits }, _, model) => ['PUT', `${P}/tenant/${model.id('tenants', on)}/quota`, limits],
    effect: ({ on, limits }) => [{ of: 'quotas_of_tenants', name: on, fields: limits }],
  },
  suspend: {
    propose: (model, dice) => wanted(another(model, dice, 'tenants'), { block: dice.chance(0.5) }),
    request: ({ on, block }, _, model) => [
      'POST',
      `${P}/billing/tenants/${model.id('tenants', on)}/suspend`,
      { block_traffic: block },
    ],
    effect: ({ on, block }) => [
      { of: 'billing', name: on, fields: { state: 'suspended', block_traffic: block } },
      { of: 'tenants', name: on, fields: { status: 'suspended' } },
    ],
  },
  resume: {
    propose: (model, dice) => wanted(another(model, dice, 'tenants')),
    request: ({ on }, _, model) => ['POST', `${P}/billing/tenants/${model.id('tenants', on)}/resume`],
    effect: ({ on }, _, model) => {
      const limited = Number(model.of('billing').get(on)?.fields.limit_bps) > 0
      return [
        { of: 'billing', name: on, fields: { state: limited ? 'limited' : 'active', block_traffic: false } },
        { of: 'tenants', name: on, fields: { status: 'active' } },
      ]
    },
  },
  limit_tenant: {
    propose: (model, dice) => wanted(another(model, dice, 'tenants'), { rate: dice.pick([0, 1_000_000, 50_000_000]) }),
    request: ({ on, rate }, _, model) => {
      const path = `${P}/billing/tenants/${model.id('tenants', on)}`
      return rate > 0 ? ['POST', `${path}/limit`, { rate_bps: rate }] : ['POST', `${path}/unlimit`]
    },
    effect: ({ on, rate }, _, model) => {
      const suspended = model.of('billing').get(on)?.fields.state === 'suspended'
      const state = suspended ? 'suspended' : rate > 0 ? 'limited' : 'active'
      return [{ of: 'billing', name: on, fields: { limit_bps: rate, state } }]
    },
  },
  network: {
    propose: (model, dice) => ({
      cidr: `10.4${dice.below(8)}.${dice.below(4)}.0/24`,
      tenant: owner(model, dice),
      ...(dice.chance(0.5) && { host_gateway: true, snat: dice.chance(0.5), dhcp: dice.chance(0.6) }),
      ...(dice.chance(0.3) && { vlan: 10 + dice.below(20) }),
    }),
    request: ({ tenant, cidr, ...fields }, name, model) => {
      const gateway = cidr.replace('.0/24', '.1')
      return ['POST', `${P}/networks`, { name, cidr, gateway, ...fields, ...ownedBy(model, tenant) }]
    },
    effect: ({ cidr, tenant, host_gateway = false, snat = false, dhcp = false, vlan }, name) => {
      const own = { enabled: host_gateway, snat, dhcp }
      return [{ of: 'networks', name, fields: { name, cidr, tenant, host_gateway: own, ...(vlan && { vlan }) } }]
    },
    made: ['networks', (body) => body.network.id],
  },
  network_gone: removal('networks', (id) => `${P}/networks/${id}`),
  gateway_of_network: {
    propose: (model, dice) =>
      wanted(another(model, dice, 'networks'), { snat: dice.chance(0.5), dhcp: dice.chance(0.5) }),
    request: ({ on, ...body }, _, model) => ['PUT', `${network(model, on)}/host-gateway`, body],
    effect: ({ on, ...body }) => [{ of: 'networks', name: on, fields: { host_gateway: { enabled: true, ...body } } }],
  },
  gateway_of_network_gone: {
    propose: (model, dice) => wanted(another(model, dice, 'networks')),
    request: ({ on }, _, model) => ['DELETE', `${network(model, on)}/host-gateway`],
    effect: ({ on }) => [
      { of: 'networks', name: on, fields: { host_gateway: { enabled: false, snat: false, dhcp: false } } },
    ],
  },
  endpoint: {
    propose: (model, dice) =>
      wanted(another(model, dice, 'networks'), dice.chance(0.3) ? { mac: dice.pick(MACS) } : {}),
    request: ({ on, ...body }, _, model) => ['POST', `${network(model, on)}/attach`, body],
    effect: ({ on, ...body }, name) => [{ of: 'endpoints', name, fields: { network: on, ...body } }],
    made: ['endpoints', (body) => body.endpoint.id],
  },
  endpoint_gone: {
    propose: (model, dice) => wanted(another(model, dice, 'endpoints')),
    request: ({ on }, _, model) => ['POST', `${endpoint(model, on)}/detach`],
    effect: ({ on }) => [{ of: 'endpoints', name: on }],
  },
  endpoint_mac: {
    propose: (model, dice) => wanted(another(model, dice, 'endpoints'), { mac: dice.pick(MACS) }),
    request: ({ on, mac }, _, model) => ['PUT', `${endpoint(model, on)}/mac`, { mac }],
    // Another MAC ends what was reserved for the former.
    effect: ({ on, mac }, _, model) => {
      const { shown, fields } = model.of('endpoints').get(on) ?? {}
      const same = (shown ?? fields)?.mac === mac
      return [{ of: 'endpoints', name: on, fields: { mac, ...(!same && { reserved: undefined }) } }]
    },
  },
  reservation: {
    propose: (model, dice) =>
      wanted(another(model, dice, 'networks'), { last: 100 + dice.below(100), mac: dice.pick(MACS) }),
    request: ({ on, last, mac }, _, model) => {
      const cidr = String(model.of('networks').get(on)?.fields.cidr)
      return ['POST', RESERVATIONS, { mac, ip: cidr.replace('0/24', `${last}`), network: model.id('networks', on) }]
    },
    effect: ({ on, last, mac }, name, model) => {
      const ip = String(model.of('networks').get(on)?.fields.cidr).replace('0/24', `${last}`)
      const there = model.where('endpoints', { network: on, ip, mac })
      if (there.length > 0) return []
      return [{ of: 'endpoints', name, fields: { network: on, ip, mac, reserved: true } }]
    },
  },
  machine: {
    propose: (model, dice) => wanted(another(model, dice, 'networks')),
    request: ({ on }, name, model) => ['POST', MACHINES, { machine: name, network: model.id('networks', on) }],
    effect: ({ on }, name) => [
      { of: 'machines', name, id: name, fields: {} },
      { of: 'endpoints', name, fields: { network: on, _machine: name } },
    ],
    // Two machines in one network hold the same: which is whose must be told, or the model takes one for the other.
    made: ['endpoints', (body) => body.nic.endpoint_id],
  },
  public_machine: {
    propose: () => ({}),
    request: (_, name) => ['POST', MACHINES, { machine: name, public_ip: 'auto' }],
    effect: (_, name) => [{ of: 'machines', name, id: name, fields: {} }],
  },
  machine_gone: removal(
    'machines',
    (id) => `${MACHINES}/${id}`,
    (model, name) => below(model, 'endpoints', { _machine: name }),
  ),
  range: {
    propose: (model, dice) => ({ cidr: `8.8.${dice.below(8)}.${dice.below(8) * 32}/29`, tenant: owner(model, dice) }),
    request: ({ cidr, tenant }, name, model) => [
      'POST',
      `${P}/routed-addresses`,
      { cidr, description: name, ...ownedBy(model, tenant) },
    ],
    effect: ({ cidr, tenant }, name) => [{ of: 'ranges', name, fields: { cidr, tenant, description: name } }],
    made: ['ranges', (body) => body.range.id],
  },
  range_gone: removal('ranges', (id) => `${P}/routed-addresses/${id}`),
  pool: {
    propose: (model, dice) => ({ subnet: `10.6${dice.below(8)}.${dice.below(4)}.0/28`, tenant: owner(model, dice) }),
    request: ({ subnet, tenant }, name, model) => [
      'POST',
      `${P}/ipam/pools`,
      { name, subnet, ...ownedBy(model, tenant) },
    ],
    effect: ({ subnet, tenant }, name) => [{ of: 'pools', name, fields: { name, subnet, tenant } }],
    made: ['pools', (body) => body.pool.id],
  },
  pool_gone: removal(
    'pools',
    (id) => `${P}/ipam/pools/${id}`,
    (model, pool) => below(model, 'allocations', { pool }),
  ),
  allocation: {
    propose: (model, dice) => wanted(another(model, dice, 'pools')),
    request: ({ on }, name, model) => [
      'POST',
      `${P}/ipam/allocate`,
      { pool_id: Number(model.id('pools', on)), hostname: name },
    ],
    effect: ({ on }, name) => [{ of: 'allocations', name, fields: { pool: on, hostname: name } }],
  },
  allocation_gone: {
    propose: (model, dice) => {
      const known = others(model, 'allocations').filter((name) => model.of('allocations').get(name)?.shown)
      return known.length > 0 ? { on: dice.pick(known) } : undefined
    },
    request: ({ on }, _, model) => {
      const { pool = '', ip = '' } = model.of('allocations').get(on)?.shown ?? {}
      return ['POST', `${P}/ipam/release`, { pool_id: Number(model.id('pools', pool)), ip }]
    },
    effect: ({ on }) => [{ of: 'allocations', name: on }],
  },
}
