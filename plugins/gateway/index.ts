/**
 * The address that a node has as a gateway (VIP), and handing it over.
 * Kernel objects: the VIP on its interface, IFA_PROTO 205. Failover has taken it away when it answers, failback has put it
 * on; the neighbours are told of it by the data plane. What became of the role without a call is settled here.
 */
import { defineArea } from '../../core/area.ts'
import { checks, splitList } from '../../core/config.ts'
import { bootId } from './boot.ts'
import { desiredIn } from './desired.ts'
import { events } from './events.ts'
import { metrics } from './metrics.ts'
import { routes } from './routes.ts'
import { startSettling } from './settling.ts'
import { hostAddress, problemWithVips } from './vip.ts'

const peer = (text: string) =>
  text === '' || hostAddress(text) ? undefined : 'must be the address of the other node, IPv4 or IPv6'
const device = (text: string) =>
  /^(?!\.{1,2}$)[A-Za-z0-9_.-]{0,15}$/.test(text) ? undefined : 'must be the name of a network device'

export default defineArea(import.meta.url, {
  name: 'gateway',
  summary: 'The address that others use as their gateway, held by one of two nodes.',
  prefixes: ['/gateway'],
  needs: ['node'],
  requires: ['netlink'],
  netlink: { owner: 205 },
  events,
  config: {
    gateway_vip: {
      default: '',
      check: (text) => problemWithVips(splitList(text)),
      effective: 'now',
      summary: 'addresses that this node has as a gateway, with or without a prefix length; empty: it is none',
    },
    gateway_peer: {
      default: '',
      check: peer,
      effective: 'now',
      summary: 'address of the other node that may have the VIP; empty: there is none',
    },
    gateway_preferred: {
      default: 'on',
      check: checks.flag,
      effective: 'now',
      summary: 'on: of the two nodes this one shall have the VIP, so that failback works here',
    },
    gateway_interface: {
      default: '',
      check: device,
      effective: 'now',
      summary: 'interface that the VIP is on; empty: the uplink',
    },
  },
  rendersFrom: ['gateway_vip', 'gateway_peer', 'gateway_interface', 'uplink'],
  desired: desiredIn(bootId),
  metrics,
  routes,
  start: startSettling,
})
