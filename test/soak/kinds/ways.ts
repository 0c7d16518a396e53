/** Zones and records; routes and policy rules; forwards and source NAT; overlays; floating addresses; bridges; BGP. */
import { another, below, type Kind, numberOf, P, removal, wanted } from '../kind.ts'
import type { Model } from '../model.ts'
import { TAKEN_VNI } from '../node.ts'

const table = (n: number) => 100 + (n % 5)
const vxlan = (model: Model, name: string) => `${P}/vxlan/networks/${model.id('overlays', name)}`

export const ways: Readonly<Record<string, Kind>> = {
  zone: {
    propose: () => ({}),
    request: (_, name) => ['POST', `${P}/dns/zones`, { name: `${name}.example` }],
    effect: (_, name) => [{ of: 'zones', name, fields: { name: `${name}.example.` } }],
    made: ['zones', (body) => body.zone.id],
  },
  zone_gone: removal(
    'zones',
    (id) => `${P}/dns/zones/${id}`,
    (model, zone) => below(model, 'records', { zone }),
  ),
  record: {
    propose: (model, dice) =>
      wanted(another(model, dice, 'zones'), { value: `192.0.2.${dice.below(250)}`, ttl: 60 + dice.below(9) }),
    request: ({ on, ...rest }, name, model) => {
      const zone_id = Number(model.id('zones', on))
      return ['POST', `${P}/dns/records`, { zone_id, name: `${name}.${on}.example`, type: 'A', ...rest }]
    },
    effect: ({ on, ...rest }, name) => [
      { of: 'records', name, fields: { zone: on, name: `${name}.${on}.example.`, type: 'A', ...rest } },
    ],
    made: ['records', (body) => body.record.id],
  },
  record_gone: removal('records', (id) => `${P}/dns/records/${id}`),
  route: {
    propose: (_, dice) => ({
      table: dice.chance(0.5) ? 0 : table(dice.below(5)),
      metric: 10 + dice.below(4),
      net: dice.below(200),
    }),
    request: ({ table, metric, net }) => [
      'POST',
      `${P}/routes`,
      { destination: `10.100.${net}.0/24`, gateway: '198.51.100.2', table, metric },
    ],
    effect: ({ table, metric, net }, name) => [
      { of: 'routes', name, fields: { destination: `10.100.${net}.0/24`, gateway: '198.51.100.2', table, metric } },
    ],
    made: ['routes', (body) => body.route.id],
  },
  route_gone: removal('routes', (id) => `${P}/routes/${id}`),
  policy: {
    propose: (_, dice) => ({
      from: `203.0.113.${dice.below(256)}/32`,
      table: table(dice.below(5)),
      priority: 11_000 + dice.below(5000),
    }),
    request: (args) => ['POST', `${P}/routes/rules`, args],
    effect: (args, name) => [{ of: 'policies', name, fields: args }],
    made: ['policies', (body) => body.rule.id],
  },
  policy_gone: removal('policies', (id) => `${P}/routes/rules/${id}`),
  forward: {
    propose: (_, dice) => ({
      dest_ip: '198.51.100.1',
      dest_port: 20_000 + dice.below(1000),
      target_ip: `10.9.0.${10 + dice.below(20)}`,
      target_port: 1 + dice.below(60_000),
    }),
    request: (args) => ['POST', `${P}/forward`, args],
    effect: (args, name) => [{ of: 'forwards', name, fields: args }],
    made: ['forwards', (body) => body.port_forward.id],
  },
  forward_gone: removal('forwards', (id) => `${P}/forward/${id}`),
  snat: {
    propose: (_, dice) => ({ source_cidr: `10.7${dice.below(10)}.${dice.below(256)}.0/24` }),
    request: (args) => ['POST', `${P}/gateway/snat`, args],
    effect: ({ source_cidr }, name) => [{ of: 'snats', name, fields: { source_ip: source_cidr } }],
    made: ['snats', (body) => body.rule.id],
  },
  snat_gone: removal('snats', (id) => `${P}/gateway/snat/${id}`),
  overlay: {
    propose: (_, dice) => ({ subnet: `10.8${dice.below(10)}.0.0/24` }),
    request: (args, name) => ['POST', `${P}/vxlan/networks`, { vni: 1000 + numberOf(name), ...args }],
    effect: (args, name) => [{ of: 'overlays', name, id: `${1000 + numberOf(name)}`, fields: args }],
  },
  /** The kernel refuses it when a part of it is in force already: all of it is taken back. */
  overlay_refused: {
    propose: (_, dice) => ({ subnet: `10.8${dice.below(10)}.1.0/24` }),
    request: (args) => ['POST', `${P}/vxlan/networks`, { vni: TAKEN_VNI, ...args }],
    effect: () => [{ of: 'overlays', name: 'refused', id: `${TAKEN_VNI}`, fields: {} }],
  },
  overlay_gone: removal(
    'overlays',
    (id) => `${P}/vxlan/networks/${id}`,
    (model, overlay) => below(model, 'peers', { overlay }),
  ),
  peer: {
    propose: (model, dice) =>
      wanted(another(model, dice, 'overlays'), { vtep_ip: `198.51.100.${100 + dice.below(50)}` }),
    request: ({ on, vtep_ip }, name, model) => ['POST', `${vxlan(model, on)}/peers`, { host: name, vtep_ip }],
    effect: ({ on, vtep_ip }, name) => [{ of: 'peers', name, id: name, fields: { overlay: on, vtep_ip } }],
  },
  peer_gone: removal('peers', (id, name, model) => {
    return `${vxlan(model, String(model.of('peers').get(name)?.fields.overlay))}/peers/${id}`
  }),
  float: {
    propose: (_, dice) => ({ ip: `198.51.100.${160 + dice.below(40)}` }),
    request: (args) => ['POST', `${P}/float`, args],
    effect: (args, name) => [{ of: 'floats', name, fields: { ...args, state: 'active' } }],
    made: ['floats', (body) => body.floating_ip.id],
  },
  float_gone: removal('floats', (id) => `${P}/float/${id}`),
  gateway: {
    propose: (model) => ({ has: model.of('gateway').get('own')?.fields.state !== 'active' }),
    request: ({ has }) => ['POST', `${P}/gateway/${has ? 'failback' : 'failover'}`],
    effect: ({ has }) => [{ of: 'gateway', name: 'own', fields: { state: has ? 'active' : 'standby' } }],
  },
  bridge: {
    propose: (model) => (model.of('bridges').size < 4 ? {} : undefined),
    request: (_, name) => ['POST', `${P}/bridges`, { name: `br-${name}` }],
    effect: (_, name) => [{ of: 'bridges', name, id: `br-${name}`, fields: {} }],
  },
  bridge_gone: removal('bridges', (id) => `${P}/bridges/${id}`),
}

export const bgp: Readonly<Record<string, Kind>> = {
  neighbor: {
    propose: (model, dice) =>
      model.of('neighbors').size < 4 ? { peer_addr: `198.51.100.${50 + dice.below(8)}` } : undefined,
    request: (args) => ['POST', `${P}/bgp/neighbors`, { ...args, peer_as: 65_001, local_as: 65_000 }],
    effect: ({ peer_addr }, name) => [{ of: 'neighbors', name, id: peer_addr, fields: { peer_as: 65_001 } }],
  },
  neighbor_gone: removal('neighbors', (id) => `${P}/bgp/neighbors/${id}`),
  announcement: {
    propose: (model, dice) => {
      const prefix = `203.0.113.${dice.below(16) * 16}/28`
      return model.where('announcements', { prefix }).length > 0 ? undefined : { prefix }
    },
    request: (args) => ['POST', `${P}/bgp/announce`, args],
    effect: ({ prefix }, name) => [{ of: 'announcements', name, id: prefix, fields: { prefix } }],
  },
  announcement_gone: {
    propose: (model, dice) => wanted(another(model, dice, 'announcements')),
    request: ({ on }, _, model) => ['POST', `${P}/bgp/withdraw`, { prefix: model.id('announcements', on) }],
    effect: ({ on }) => [{ of: 'announcements', name: on }],
  },
  prefix_list: {
    propose: (_, dice) => ({ prefix: `10.${dice.below(200)}.0.0/16` }),
    request: ({ prefix }, name) => ['POST', `${P}/bgp/prefix-lists`, { name, entries: [{ prefix, action: 'permit' }] }],
    effect: (_, name) => [{ of: 'prefix_lists', name, id: name, fields: {} }],
  },
  prefix_list_gone: removal('prefix_lists', (id) => `${P}/bgp/prefix-lists/${id}`),
}
