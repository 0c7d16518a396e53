/**
 * VXLAN overlays (RFC 7348) and their peers.
 * Kernel objects: a device `vx<vni>` each, an isolated port of `br-work`; forwarding entries to the VTEPs of its peers; in
 * table `inet stratum` the chain `vxlan_input` and the sets `vxlan_vteps4` and `6`: UDP 4789 is for the peers alone. An
 * overlay carries one private network or what belongs to none, and never passes on what came in from off the node.
 * What is created is in force when that answers; what the kernel refuses never was.
 */
import { defineArea } from '../../core/area.ts'
import { checks } from '../../core/config.ts'
import { desired, followed } from './desired.ts'
import { events } from './events.ts'
import { followLocal } from './follow.ts'
import { problemOfLocal } from './input.ts'
import { metrics } from './metrics.ts'
import { replicates } from './replicate.ts'
import { routes } from './routes.ts'
import { INPUT, skeleton, vteps } from './skeleton.ts'
import { warningsOfNetwork } from './warnings.ts'

export default defineArea(import.meta.url, {
  name: 'vxlan',
  summary: 'VXLAN overlays (RFC 7348) and their peers.',
  prefixes: ['/vxlan'],
  // Whose networks are carried; under whose default deny the peers come in.
  needs: ['firewall', 'networks'],
  requires: ['nft', 'netlink', 'port'],
  netlink: { owner: 207 },
  port: ['overlay', 'peer'],
  follows: { networks: followed },
  warnings: { networks: warningsOfNetwork },
  events,
  config: {
    max_vxlans: {
      default: '4096',
      check: checks.int(1, 16_384),
      effective: 'now',
      summary: 'most VXLAN networks on this node; br-work has room for 1023 ports in all',
    },
    max_vxlan_peers: {
      default: '1024',
      check: checks.int(1, 16_384),
      effective: 'now',
      summary: 'most peers of one VXLAN network',
    },
    vxlan_local_ip: {
      default: '',
      check: problemOfLocal,
      effective: 'now',
      summary: 'address of the node that overlays go out by; default: the first global one of the uplink',
    },
  },
  nft: { skeleton, chains: [INPUT], sets: [vteps(4), vteps(6)] },
  desired,
  replicates,
  metrics,
  routes,
  start: async (context) => followLocal(context),
})
