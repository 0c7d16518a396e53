/** What the parts of this area share: the engine and what is configured. One for each agent. */
import { hostname } from 'node:os'
import type { AreaContext } from '../../core/area.ts'
import type { Config } from '../../core/config.ts'
import { conflict, notAvailable } from '../../core/errors.ts'
import { addressOf } from './address.ts'
import { type Engine, NODE_ID, openEngine, whyNoEtcd } from './engine.ts'
import type { PassCounts } from './mesh/peers.ts'
import type { Peer, Status, Summary } from './schemas.ts'
import { knownOf } from './standing.ts'
import { behind } from './trusting.ts'

export interface Cluster {
  engine: Engine
  context: AreaContext
  /** Why this node can be in no cluster; undefined when it can. */
  whyOff(): string | undefined
  /** @throws ApiError 503 unless clustering is enabled, or this node is in a cluster already */
  require(): void
  /** Members whose admission or removal was asked for here: who asked is told with the event, so nobody tells it again. */
  told: Set<string>
  /** Calls that this node has passed on. */
  passed: PassCounts
}

const clusters = new WeakMap<Config, Cluster>()

/** That of an agent, made when it is first asked for. */
export function clusterFor(context: AreaContext): Cluster {
  const known = clusters.get(context.config)
  if (known) return known
  const { config, stateDir } = context
  const address = () => config.text('cluster_address')
  const engine = openEngine(context, {
    self: hostname(),
    address: () => addressOf(address()),
    peerPort: config.int('cluster_peer_port'),
    clientPort: config.int('cluster_client_port'),
    stateDir,
  })
  const whyOff = () => {
    if (!config.flag('cluster_enabled')) return 'cluster_enabled is off'
    if (address() === '') return 'cluster_address is not set'
    if (!NODE_ID.test(engine.self))
      return `the host is called ${JSON.stringify(engine.self)}, which is no name of a node`
    return whyNoEtcd()
  }
  const cluster: Cluster = {
    engine,
    context,
    whyOff,
    require() {
      if (engine.standing() !== undefined) return
      const why = whyOff()
      if (why === undefined) return
      context.log.info({ why }, 'clustering was asked for and is not enabled')
      throw notAvailable('cluster')
    },
    told: new Set(),
    passed: { answered: 0, unreachable: 0 },
  }
  clusters.set(config, cluster)
  return cluster
}

/** @throws TypeError before the area has started */
export function clusterOf(config: Config): Cluster {
  const known = clusters.get(config)
  if (known === undefined) throw new TypeError('the cluster has not started')
  return known
}

/** While a node is in a cluster it stays what the others know it as. @throws ApiError 409 */
export function mustStay({ engine, context: { config } }: Cluster): void {
  const self = engine.standing()?.members.find(({ id }) => id === engine.self)
  if (self === undefined) return
  const changed = ['cluster_enabled', 'cluster_address'].find((key) =>
    key === 'cluster_enabled'
      ? !config.flag(key)
      : config.text(key) === '' || addressOf(config.text(key)) !== self.address,
  )
  if (changed === undefined) return
  throw conflict('IN_CLUSTER', `${changed}: this node is a member of a cluster; \`stratumctl cluster leave\` first`)
}

export function summaryOf({ engine, context: { config } }: Cluster): Summary {
  const standing = engine.standing()
  const enabled = standing !== undefined || (config.flag('cluster_enabled') && config.text('cluster_address') !== '')
  const members = standing?.members ?? [{ online: true }]
  const { state, leader } = roleOf(engine)
  const healthy = members.filter(({ online }) => online).length
  return { enabled, node_id: engine.self, state, leader, members: members.length, healthy }
}

export function statusOf({ engine }: Cluster): Status {
  const trust = trustOf(engine)
  return { node_id: engine.self, ...roleOf(engine), peers: peersOf(engine), ...(trust && { trust }) }
}

/** undefined: this node is in no cluster, or its etcd does not say. */
export function trustOf(engine: Pick<Engine, 'standing'>): Status['trust'] {
  const standing = engine.standing()
  if (standing === undefined || standing.members.every(({ trust }) => trust === undefined)) return undefined
  const late = behind(knownOf(standing))
  return { state: late.length === 0 ? 'current' : 'changing', behind: late }
}

/** Alone a node leads itself (D98). */
export function roleOf(engine: Pick<Engine, 'standing' | 'self'>): Pick<Status, 'state' | 'leader' | 'is_leader'> {
  const standing = engine.standing()
  if (standing === undefined) return { state: 'leader', leader: engine.self, is_leader: true }
  const { leader, isLeader } = standing
  return { state: isLeader ? 'leader' : 'follower', leader, is_leader: isLeader }
}

export function peersOf(engine: Pick<Engine, 'standing' | 'self'>): Peer[] {
  const { members = [], leader } = engine.standing() ?? {}
  return members
    .filter(({ id }) => id !== engine.self)
    .map(({ id, address, voter, online, lastSeen }) => ({
      id,
      address,
      role: !voter ? 'learner' : id === leader ? 'leader' : 'follower',
      status: online ? 'online' : 'offline',
      ...(lastSeen && { last_seen: lastSeen.toISOString() }),
    }))
}
