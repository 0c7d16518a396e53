/**
 * Private networks and their endpoints, the node as their gateway, and public addresses routed to machines.
 * Kernel objects: nets and bindings of the programs on `br-work`; gateway addresses, routes and neighbours there; source
 * translation in nft. A binding holds when its attach answers, and is gone when its detach does; a MAC changes in one
 * step. What the kernel refuses never was.
 */
import { defineArea } from '../../core/area.ts'
import { checks, splitList } from '../../core/config.ts'
import { tellViolations } from '../../core/violations.ts'
import { desired } from './desired.ts'
import { events } from './events.ts'
import { whyNotServices } from './guests.ts'
import { holdings } from './holdings.ts'
import { followPorts } from './places.ts'
import { warnOfRoaming } from './roaming.ts'
import { routes } from './routes.ts'
import { GATEWAYS, GUESTS, INPUT, INSIDE, OWN_GATEWAYS, POSTROUTING, SNAT, skeleton, UPLINKS } from './skeleton.ts'
import { violation } from './violation.ts'

const PORTS = ['roam', 'sticky', 'named']

export default defineArea(import.meta.url, {
  name: 'networks',
  summary: 'Private networks and their endpoints, the node as their gateway, and public addresses routed to machines.',
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
    guest_services: {
      default: '',
      check: (text) => whyNotServices(splitList(text)),
      effective: 'now',
      summary:
        'what machines in private networks may reach of the node besides DNS, DHCP and ping: tcp/22, udp/123; or all',
    },
    endpoint_ports: {
      default: 'roam',
      check: (text) => (PORTS.includes(text) ? undefined : `must be one of ${PORTS.join(', ')}`),
      effective: 'now',
      summary:
        'who may send as an endpoint whose port is not named: roam (the first device, or the next one when that has gone), sticky (the first device), named (nobody)',
    },
  },
  rendersFrom: ['uplink', 'endpoint_ports', 'api_allowed_ips', 'guest_services'],
  nft: { skeleton, chains: [POSTROUTING, INPUT, GUESTS], sets: [SNAT, INSIDE, UPLINKS, GATEWAYS, OWN_GATEWAYS] },
  desired,
  holdings,
  routes,
  async start(context) {
    const stops = [tellViolations(context, violation), followPorts(context), warnOfRoaming(context)]
    return async () => {
      for (const stop of stops.reverse()) await stop()
    }
  },
})
