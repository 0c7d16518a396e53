/** Neighbors of BGP, announcements, and policies: prefix-lists, route-maps and whose they are. */
import type { Dice } from '../dice.ts'
import { another, below, type Kind, P, removal, wanted } from '../kind.ts'
import type { Model } from '../model.ts'

export const bgp: Readonly<Record<string, Kind>> = {
  neighbor: {
    propose: (model, dice) =>
      model.of('neighbors').size < 4 ? { peer_addr: `198.51.100.${50 + dice.below(8)}` } : undefined,
    request: (args) => ['POST', `${P}/bgp/neighbors`, { ...args, peer_as: 65_001, local_as: 65_000 }],
    effect: ({ peer_addr }, name) => [{ of: 'neighbors', name, id: peer_addr, fields: { peer_as: 65_001 } }],
  },
  neighbor_gone: removal(
    'neighbors',
    (id) => `${P}/bgp/neighbors/${id}`,
    (model, neighbor) => below(model, 'neighbor_policies', { _neighbor: neighbor }),
  ),
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
    effect: ({ prefix }, name) => [{ of: 'prefix_lists', name, id: name, fields: { entries: [entry(prefix)] } }],
  },
  prefix_list_other: {
    propose: (model, dice) => wanted(another(model, dice, 'prefix_lists'), { prefix: `10.${dice.below(200)}.0.0/16` }),
    request: ({ on, prefix }) => [
      'POST',
      `${P}/bgp/prefix-lists`,
      { name: on, entries: [{ prefix, action: 'permit' }] },
    ],
    effect: ({ on, prefix }) => [{ of: 'prefix_lists', name: on, fields: { entries: [entry(prefix)] } }],
  },
  prefix_list_gone: removal('prefix_lists', (id) => `${P}/bgp/prefix-lists/${id}`),
  route_map: {
    propose: (model, dice) => (model.of('route_maps').size < 8 ? { entries: [clause(model, dice)] } : undefined),
    request: ({ entries }, name) => ['POST', `${P}/bgp/route-maps`, { name, entries }],
    effect: ({ entries }, name) => [{ of: 'route_maps', name, id: name, fields: { entries } }],
  },
  route_map_other: {
    propose: (model, dice) => wanted(another(model, dice, 'route_maps'), { entries: [clause(model, dice)] }),
    request: ({ on, entries }) => ['POST', `${P}/bgp/route-maps`, { name: on, entries }],
    effect: ({ on, entries }) => [{ of: 'route_maps', name: on, fields: { entries } }],
  },
  route_map_gone: removal('route_maps', (id) => `${P}/bgp/route-maps/${id}`),
  neighbor_policy: {
    propose: (model, dice) => {
      const map = another(model, dice, 'route_maps')
      return map && wanted(another(model, dice, 'neighbors'), { map, dir: dice.pick(['import', 'export']) })
    },
    request: ({ on, map, dir }, _, model) => [
      'POST',
      `${P}/bgp/policy/${dir}`,
      { neighbor: model.id('neighbors', on), route_map: map },
    ],
    effect: ({ on, map, dir }, _, model) => {
      const name = `${dir}/${model.id('neighbors', on)}`
      return [{ of: 'neighbor_policies', name, id: name, fields: { route_map: map, _neighbor: on } }]
    },
  },
  neighbor_policy_gone: removal('neighbor_policies', (id) => `${P}/bgp/policy/${decodeURIComponent(id)}`),
}

/** As they are listed. */
const entry = (prefix: string) => ({ prefix, action: 'permit', ge: 0, le: 0 })
const clause = (model: Model, dice: Dice) => ({
  ...{ seq: 10 * (1 + dice.below(5)), action: dice.pick(['permit', 'deny']) },
  match_prefix: dice.pick(['', ...model.names('prefix_lists')]),
  set_med: dice.below(100),
})
