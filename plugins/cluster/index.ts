/**
 * The cluster: nodes that hold the same tenants, addresses, peers and floating IPs, and pass calls on to each other.
 * Owns etcd, a child process, only while this node is in a cluster; files below `etcd/` and `cluster/` of the state directory;
 * the ports 7073 (other nodes' agents), 7074 (their etcd) and 7075 (loopback). In the kernel, in table `inet stratum`: the chain
 * `cluster_input` and the sets `cluster_members4` and `6`, by which these ports are for members alone; elements of the firewall's
 * sets, so that a default deny does not keep the members out.
 */
import { defineArea } from '../../core/area.ts'
import { checks } from '../../core/config.ts'
import { problemOfAddress } from './address.ts'
import { clusterFor } from './cluster.ts'
import { desired } from './desired.ts'
import { events } from './events.ts'
import { metrics } from './metrics.ts'
import { control, routes } from './routes.ts'
import { INPUT, memberSet, skeleton } from './skeleton.ts'
import { start } from './start.ts'

const port = (number: string, summary: string) => ({
  default: number,
  check: checks.int(1, 65_535),
  effective: 'restart' as const,
  summary,
})

export default defineArea(import.meta.url, {
  name: 'cluster',
  summary: 'The cluster that this node is in: its members, its state, and codes to join it by.',
  prefixes: ['/cluster'],
  // Under whose default deny the members come in.
  needs: ['firewall'],
  events,
  config: {
    cluster_enabled: {
      default: 'off',
      check: checks.flag,
      effective: 'now',
      summary: 'on: this node may be in a cluster; needs cluster_address',
    },
    cluster_address: {
      default: '',
      check: problemOfAddress,
      effective: 'now',
      summary: 'address of this node by which the other members of its cluster reach it',
    },
    cluster_port: port('7073', "port for the other members' agents; the same on all of them"),
    cluster_peer_port: port('7074', "port for the other members' etcd; the same on all of them"),
    cluster_client_port: port('7075', 'port of 127.0.0.1 by which the agent speaks to its etcd'),
  },
  nft: { skeleton, chains: [INPUT], sets: [memberSet(4), memberSet(6)] },
  desired,
  replicator: (context) => clusterFor(context).engine.replicator,
  metrics,
  routes,
  control,
  start,
})
