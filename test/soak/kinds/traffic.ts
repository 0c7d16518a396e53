/** Firewall rules; VIPs and their backends; VLANs, bound MACs; limits, pools and quotas. */

import type { Dice } from '../dice.ts'
import { another, below, type Kind, P, removal, wanted } from '../kind.ts'
import { MACS } from './tenancy.ts'

const LB = `${P}/lb`
const BANDWIDTH = `${P}/bandwidth`
/** Of machines that nobody starts. */
export const LIMITED = Array.from({ length: 16 }, (_, n) => `02:00:00:00:20:${(n + 16).toString(16)}`)

const rule = (dice: Dice) => ({
  action: dice.pick(['accept', 'drop']),
  priority: 100 + dice.below(400),
  protocol: dice.pick(['tcp', 'udp']),
  source_ip: `192.0.2.${dice.below(256)}`,
  dest_port: 1 + dice.below(60_000),
})
const MAX_BATCH = 40

export const traffic: Readonly<Record<string, Kind>> = {
  rule: {
    propose: (_, dice) => rule(dice),
    request: (args) => ['POST', `${P}/rules`, args],
    effect: (args, name) => [{ of: 'rules', name, fields: args }],
    made: ['rules', (body) => body.rule.id],
  },
  rules: {
    propose: (_, dice) => ({ rules: Array.from({ length: 2 + dice.below(MAX_BATCH) }, () => rule(dice)) }),
    request: ({ rules }, name) => [
      'POST',
      `${P}/rules/batch`,
      { rules: rules.map((one: object, n: number) => ({ ...one, comment: `${name}.${n}` })), atomic: true },
    ],
    effect: ({ rules }, name) =>
      rules.map((one: object, n: number) => ({
        of: 'rules',
        name: `${name}.${n}`,
        fields: { ...one, comment: `${name}.${n}` },
      })),
  },
  rule_other: {
    propose: (model, dice) => wanted(another(model, dice, 'rules'), { fields: rule(dice) }),
    request: ({ on, fields }, _, model) => ['PUT', `${P}/rules/${model.id('rules', on)}`, fields],
    effect: ({ on, fields }) => [{ of: 'rules', name: on, fields: { ...fields, comment: undefined }, anew: true }],
    made: ['rules', (body) => body.rule.id, 'on'],
  },
  rule_gone: removal('rules', (id) => `${P}/rules/${id}`),
  default: {
    propose: (_, dice) => ({ action: dice.pick(['allow', 'deny']) }),
    request: ({ action }) => ['PUT', `${P}/rules/default`, { default_action: action }],
    effect: ({ action }) => [{ of: 'default', name: 'own', fields: { action } }],
  },
  vip: {
    propose: (_, dice) => ({
      frontend_ip: `198.51.100.${200 + dice.below(20)}`,
      frontend_port: 1000 + dice.below(1000),
      protocol: dice.pick(['tcp', 'udp']),
      algorithm: dice.pick(['round-robin', 'least-conn', 'source-hash', 'weighted', 'maglev']),
    }),
    request: (args, name) => ['POST', LB, { id: name, ...args }],
    effect: (args, name) => [{ of: 'vips', name, id: name, fields: args }],
  },
  vip_gone: removal(
    'vips',
    (id) => `${LB}/${id}`,
    (model, vip) => below(model, 'backends', { vip }),
  ),
  backend: {
    propose: (model, dice) =>
      wanted(another(model, dice, 'vips'), {
        ip: `10.9.0.${30 + dice.below(60)}`,
        port: 8080,
        weight: 1 + dice.below(9),
      }),
    request: ({ on, ...body }, name, model) => [
      'POST',
      `${LB}/${model.id('vips', on)}/backends`,
      { id: name, ...body },
    ],
    effect: ({ on, ip, port, weight }, name) => [
      { of: 'backends', name, id: `${on}/${name}`, fields: { vip: on, ip, port, weight, healthy: true } },
    ],
  },
  backend_gone: removal('backends', (_, name, model) => {
    return `${LB}/${model.of('backends').get(name)?.fields.vip}/backends/${name}`
  }),
  health: {
    propose: (model, dice) => wanted(another(model, dice, 'backends'), { healthy: dice.chance(0.5) }),
    request: ({ on, healthy }, _, model) => [
      'POST',
      `${LB}/${model.of('backends').get(on)?.fields.vip}/backends/${on}/health`,
      { healthy },
    ],
    effect: ({ on, healthy }) => [{ of: 'backends', name: on, fields: { healthy } }],
  },
  vlan: {
    propose: (_, dice) => ({ vlan_id: 40 + dice.below(30), allowed: dice.chance(0.5) }),
    request: (args) => ['POST', `${P}/vlan`, args],
    effect: ({ vlan_id, allowed }) => [{ of: 'vlans', name: `v${vlan_id}`, id: `${vlan_id}`, fields: { allowed } }],
  },
  vlan_gone: removal('vlans', (id) => `${P}/vlan/${id}`),
  macbind: {
    propose: (_, dice) => ({
      mac: dice.pick(MACS),
      mode: dice.pick(['hard', 'soft']),
      port_id: dice.pick(['tapx', 'tapy']),
    }),
    request: (args) => ['POST', `${P}/macbind`, args],
    effect: ({ mac, ...fields }) => [{ of: 'macbinds', name: mac, id: mac, fields }],
  },
  macbind_gone: removal('macbinds', (id) => `${P}/macbind/${id}`),
  limit: {
    propose: (model, dice) => ({
      target_mac: dice.pick(LIMITED),
      rate_bps: 1_000_000 * (1 + dice.below(50)),
      direction: dice.pick(['up', 'down', 'both']),
      pool: dice.pick(['', '', ...model.names('shared')]),
    }),
    request: ({ pool, ...args }, name) => ['POST', BANDWIDTH, { id: name, ...args, ...(pool && { pool_id: pool }) }],
    effect: ({ pool, ...args }, name) => [{ of: 'limits', name, id: name, fields: { ...args, pool_id: pool } }],
  },
  limit_other: {
    propose: (model, dice) => wanted(another(model, dice, 'limits'), { rate_bps: 1_000_000 * (1 + dice.below(50)) }),
    request: ({ on, rate_bps }, _, model) => {
      const { target_mac, direction, pool_id } = model.of('limits').get(on)?.fields ?? {}
      return ['POST', BANDWIDTH, { id: on, target_mac, direction, rate_bps, ...(pool_id !== '' && { pool_id }) }]
    },
    effect: ({ on, rate_bps }) => [{ of: 'limits', name: on, fields: { rate_bps } }],
  },
  limit_gone: removal('limits', (id) => `${BANDWIDTH}/${id}`),
  shared: {
    propose: (_, dice) => ({ total_bps: 10_000_000 * (1 + dice.below(9)) }),
    request: (args, name) => ['POST', `${BANDWIDTH}/pools`, { id: name, ...args }],
    effect: (args, name) => [{ of: 'shared', name, id: name, fields: args }],
  },
  shared_gone: removal(
    'shared',
    (id) => `${BANDWIDTH}/pools/${id}`,
    (model, pool) => below(model, 'members', { pool }),
  ),
  member: {
    propose: (model, dice) =>
      wanted(another(model, dice, 'shared'), { mac: dice.pick(LIMITED), rate_bps: dice.pick([0, 5_000_000]) }),
    request: ({ on, mac, rate_bps }) => [
      'POST',
      `${BANDWIDTH}/pools/members`,
      { pool_id: on, member_mac: mac, ...(rate_bps > 0 && { rate_bps }) },
    ],
    effect: ({ on, mac }) => [{ of: 'members', name: `${on}/${mac}`, id: `${on}/${mac}`, fields: { pool: on } }],
  },
  member_gone: removal('members', (id) => `${BANDWIDTH}/pools/${decodeURIComponent(id).replace('/', '/members/')}`),
  quota_of_mac: {
    propose: (_, dice) => ({
      mac: dice.pick(LIMITED),
      monthly_limit_bytes: 1_000_000 * (1 + dice.below(90)),
      action: dice.pick(['notify', 'throttle', 'block']),
      enforced: dice.chance(0.5),
    }),
    request: (args, name) => ['POST', `${BANDWIDTH}/quotas`, { id: name, ...args }],
    effect: ({ mac, ...fields }) => [{ of: 'quotas', name: mac, id: mac, fields }],
  },
  quota_of_mac_gone: removal('quotas', (id) => `${BANDWIDTH}/quotas/${id}`),
}
