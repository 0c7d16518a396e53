/**
 * Bridges and their ports, bonds and their members, and the network cards.
 * Kernel objects: links of kind bridge and bond, memberships of devices that are not ours, the uplink role of ports of `br-work`.
 * A device that the operator names must exist when it is named; it may go and come back afterwards.
 */
import { defineArea } from '../../core/area.ts'
import { checks, splitList } from '../../core/config.ts'
import { tellMembers } from './bond-news.ts'
import { control } from './control.ts'
import { desired } from './desired.ts'
import { events } from './events.ts'
import { metrics } from './metrics.ts'
import { routes } from './routes.ts'

const deviceNames = (text: string) =>
  splitList(text).every((name) => /^(?!\.{1,2}$)[A-Za-z0-9_.-]{1,15}$/.test(name))
    ? undefined
    : 'must be a list of network devices'

export default defineArea(import.meta.url, {
  name: 'l2',
  summary: 'Bridges and their ports, bonds and their members, and network cards.',
  prefixes: ['/bridges', '/nics'],
  requires: ['netlink'],
  parts: [{ name: 'bonding', prefixes: ['/bonds'], requires: ['bonding'] }],
  netlink: { owner: 203 },
  port: ['uplink', 'closing'],
  events,
  config: {
    max_bonds: {
      default: '32',
      check: checks.int(1, 256),
      effective: 'now',
      summary: 'most bonds on this node',
    },
    workload_uplinks: {
      default: '',
      check: deviceNames,
      effective: 'now',
      summary: 'ports of br-work that lead off the node; all others are workload ports',
    },
    open_ports: {
      default: 'auto',
      check: (text) => (['auto', 'closed', 'open'].includes(text) ? undefined : 'must be auto, closed or open'),
      effective: 'now',
      summary:
        'closed: what comes by a port of br-work that no network has claimed never reaches the node; auto: as the node began',
    },
    bridge_netfilter: {
      default: 'leave',
      check: (text) => (text === 'leave' || text === 'off' ? undefined : 'must be leave or off'),
      effective: 'now',
      summary: 'off: frames of no bridge on this node meet the IP hooks (net.bridge.bridge-nf-call-* = 0)',
    },
  },
  start: async (context) => {
    const { config, log, plane } = context
    const { devices } = plane
    const follow = () => {
      if (config.text('bridge_netfilter') !== 'off' || !devices.bridgedFramesMeetHooks()) return
      devices.keepBridgedFramesFromHooks()
      log.info('bridged frames no longer meet the IP hooks')
    }
    follow()
    const stops = [config.onChange((key) => key === 'bridge_netfilter' && follow()), tellMembers(context)]
    return async () => {
      for (const stop of stops) await stop()
    }
  },
  rendersFrom: ['workload_uplinks', 'open_ports'],
  desired,
  metrics,
  routes,
  control,
})
