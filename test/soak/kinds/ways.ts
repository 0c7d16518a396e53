/** Zones and records; routes and policy rules; forwards and source NAT; overlays; floating addresses; bridges. */
import { another, below, type Kind, numberOf, P, removal, wanted } from '../kind.ts'
import type { Model } from '../model.ts'
import { GATEWAY_VIP, NODE, TAKEN_VNI } from '../node.ts'

const table = (n: number) => 100 + (n % 5)
const floating = (model: Model) => [...model.of('floats').values()].map(({ fields }) => String(fields.ip))
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
      wanted(another(model, dice, 'zones'), {
        ...dice.pick([
          { type: 'A', value: `192.0.2.${dice.below(250)}` },
          { type: 'AAAA', value: `2001:db8::${1 + dice.below(250)}` },
          { type: 'TXT', value: `text ${dice.below(250)}` },
        ]),
        ttl: 60 + dice.below(9),
      }),
    request: ({ on, ...rest }, name, model) => {
      const zone_id = Number(model.id('zones', on))
      return ['POST', `${P}/dns/records`, { zone_id, name: `${name}.${on}.example`, ...rest }]
    },
    effect: ({ on, ...rest }, name) => [
      { of: 'records', name, fields: { zone: on, name: `${name}.${on}.example.`, ...rest } },
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
    propose: (model, dice) => ({
      dest_ip: dice.pick([NODE, NODE, GATEWAY_VIP, ...floating(model)]),
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
    propose: (_, dice) => ({
      source_cidr: `10.7${dice.below(10)}.${dice.below(256)}.0/24`,
      ...(dice.chance(0.3) && { interface: 'foreign0' }),
    }),
    request: (args) => ['POST', `${P}/gateway/snat`, args],
    effect: ({ source_cidr, ...device }, name) => [
      { of: 'snats', name, fields: { source_ip: source_cidr, ...device } },
    ],
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
  /** Whether bridged frames meet the IP hooks, and with them the default deny. */
  hooks: {
    propose: (_, dice) => ({ value: dice.pick(['leave', 'off']) }),
    request: (args) => ['PUT', '/control/v1/config/bridge_netfilter', args],
    effect: ({ value }) => [{ of: 'settings', name: 'own', fields: { bridge_netfilter: value } }],
  },
}
