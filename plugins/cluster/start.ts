/** Takes up what this node was when its agent ended, and makes it known to the rest of the agent. */
import type { AreaContext, Member, Stop } from '../../core/area.ts'
import { type Cluster, clusterFor, mustStay } from './cluster.ts'
import { portsOf } from './desired.ts'
import { openPeers } from './mesh/peers.ts'
import { startNewcomers } from './newcomers.ts'
import { startUpkeep } from './upkeep.ts'

export async function start(context: AreaContext): Promise<Stop> {
  const cluster = clusterFor(context)
  const { config, elsewhere, members } = context
  const peers = openPeers(cluster.engine, config.int('cluster_port'), cluster.passed)
  elsewhere.peers.add(peers)
  members.add(() => membersOf(cluster))
  const stopJudging = config.onChange((key) => (key.startsWith('cluster_') ? mustStay(cluster) : undefined))
  await cluster.engine.start()
  const stopUpkeep = startUpkeep(cluster)
  const stopNewcomers = startNewcomers(cluster)
  return async () => {
    stopJudging()
    elsewhere.peers.delete(peers)
    await stopNewcomers()
    await stopUpkeep()
    peers.close()
    await cluster.engine.close()
  }
}

/** As the firewall asks: what each other member calls here (D73). */
function* membersOf({ engine, context: { config } }: Cluster): Generator<Member> {
  const all = engine.standing()?.members ?? []
  const own = all.find(({ id }) => id === engine.self)
  if (own === undefined) return
  const calls = { address: own.address, ports: portsOf(config) }
  for (const { id, address } of all) if (id !== engine.self) yield { id, address, calls }
}
