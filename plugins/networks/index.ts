/**
 * Private networks and their endpoints, the node as their gateway, and public addresses routed to machines.
 * Kernel objects: nets and bindings of the programs on `br-work`; gateway addresses, routes and neighbours there; source
 * translation in nft. A binding holds when its attach answers, and is gone when its detach does; a MAC changes in one
 * step. What the kernel refuses never was.
 */
import { defineArea } from '../../core/area.ts'
import { checks } from '../../core/config.ts'
import { tellViolations } from '../../core/violations.ts'
import { desired } from './desired.ts'
import { events } from './events.ts'
import { holdings } from './holdings.ts'
import { routes } from './routes.ts'
import { INSIDE, POSTROUTING, SNAT, skeleton, UPLINKS } from './skeleton.ts'
import { violation } from './violation.ts'

export default defineArea(import.meta.url, {
  name: 'networks',
  prefixes: ['/networks', '/routed-addresses'],
  needs: ['ipam', 'l2'],
  requires: ['nft', 'netlink', 'port'],
  netlink: { owner: 202 },
  port: ['net', 'binding'],
  events,
  config: {
    max_networks: {
      default: '1024',
      check: checks.int(1, 4000),
      effective: 'now',
      summary: 'most private networks on this node',
    },
    max_routed_ranges: {
      default: '1024',
      check: checks.int(1, 65_536),
      effective: 'now',
      summary: 'most routed ranges on this node',
    },
  },
  rendersFrom: ['uplink'],
  nft: { skeleton, chains: [POSTROUTING], sets: [SNAT, INSIDE, UPLINKS] },
  desired,
  holdings,
  routes,
  start: async (context) => tellViolations(context, violation),
})
