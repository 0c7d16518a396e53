/** What goes on while a node is in a cluster: its door is open, what happens to its members is told, who never came is forgotten. */
import type { EventDraft, Stop } from '../../core/area.ts'
import { conflict } from '../../core/errors.ts'
import { system } from '../../core/state/events.ts'
import type { RestListener } from '../../core/transport/listener.ts'
import { certificatesIn, chainOf } from './authority.ts'
import { type Cluster, peersOf, roleOf, trustOf } from './cluster.ts'
import { sayFarewell } from './farewell.ts'
import { admitByCode, remove } from './join.ts'
import { askWhomToTrust, isCountedOn } from './mesh/asking.ts'
import { openDoor } from './mesh/door.ts'
import type { Peer, Status } from './schemas.ts'
import { tidy } from './tidy.ts'

const EVERY_MS = 60_000
const AGAIN_MS = 5000
const GRACE_MS = 2000
const FAREWELL_MS = 10_000

const NO_MAJORITY = {
  what: 'no majority of the cluster can be reached',
  remedy:
    'stratumctl cluster status names the members: start those that are offline and mend the network to them; ' +
    'if a majority is lost for good, stratumctl cluster recover',
}

type Role = Status['state']

export function startUpkeep(cluster: Cluster): Stop {
  const { engine, context, told } = cluster
  const { log, elsewhere, config } = context
  const problem = (what: string) => (error: unknown) => log.error({ err: error }, what)

  let role = roleOf(engine).state
  let known: Map<string, Peer> | undefined
  let trusted: 'current' | 'changing' | undefined

  /** What this node has seen since it looked last, in the order in which it is to be told. */
  function news(): EventDraft[] {
    const { state } = roleOf(engine)
    const events = state === role ? [] : [stateChanged(role, state)]
    role = state
    const trust = trustOf(engine)
    if (trust !== undefined && trust.state !== trusted) {
      if (trusted !== undefined)
        events.push({ type: 'cluster_trust.updated', resource: '/cluster/status', data: trust })
      trusted = trust.state
    }
    const found = engine.standing() && new Map(peersOf(engine).map((peer) => [peer.id, peer]))
    if (known && found) events.push(...membershipNews(known, found))
    // Who asked for what has been told by then.
    if (found === undefined) told.clear()
    known = found
    return events
  }

  const stateChanged = (from: Role, to: Role): EventDraft => ({
    type: 'cluster_member.state_changed',
    resource: '/cluster/status',
    data: { id: engine.self, from, to },
  })

  function* membershipNews(before: Map<string, Peer>, after: Map<string, Peer>): Generator<EventDraft> {
    for (const [id, { address, ...peer }] of after) {
      const old = before.get(id)
      const resource = `/cluster/members/${id}`
      if (old === undefined) {
        if (!told.delete(id)) yield { type: 'cluster_member.added', resource, data: { id, address } }
      } else if (old.status !== peer.status || (old.role === 'learner') !== (peer.role === 'learner')) {
        yield { type: 'cluster_member.updated', resource, data: { address, ...peer } }
      }
    }
    for (const id of before.keys()) {
      if (after.has(id) || told.delete(id)) continue
      yield { type: 'cluster_member.removed', resource: `/cluster/members/${id}`, data: { id } }
    }
  }

  function tell(): void {
    const standing = engine.standing()
    context.ails(standing && !standing.writable ? NO_MAJORITY : undefined)
    const events = news()
    if (events.length === 0) return
    context
      .mutate(system('cluster'), () => ({ result: undefined, touch: [], events }))
      .catch(problem('what happened to the cluster could not be told'))
  }

  let door: { listener: RestListener; key: string; shown: string } | undefined
  let turning: Promise<unknown> = Promise.resolve()
  let stopped = false
  let again: NodeJS.Timeout | undefined

  /** Open as long as this node is in a cluster, with the certificate that it has. */
  async function turnDoor(): Promise<void> {
    const tls = stopped ? undefined : engine.tls()
    const self = engine.standing()?.members.find(({ id }) => id === engine.self)
    const key = tls && self?.address
    if (door && door.key !== key) {
      const { listener } = door
      door = undefined
      await listener.close(GRACE_MS)
    }
    if (tls === undefined || self === undefined || key === undefined) return
    if (door) {
      const shown = tls.certificate + tls.ca
      if (door.shown !== shown) door.listener.setCertificate({ cert: chainOf(tls), key: tls.key, ca: tls.ca })
      door.shown = shown
      return
    }
    const listener = await openDoor({
      elsewhere,
      address: self.address,
      port: config.int('cluster_port'),
      tls,
      members: () => engine.standing()?.members.filter(({ id }) => id !== engine.self) ?? [],
      join: (body) => admitByCode(cluster, body),
      withdraw,
      mayCome: async (node) => ({ status: await engine.mayCome(node).then(() => 'admitted') }),
      dismissed,
      authorities: () => ({ authorities: certificatesIn(engine.tls()?.ca ?? '') }),
      problem: problem('a call by another node failed'),
    })
    door = { listener, key, shown: tls.certificate + tls.ca }
    log.info({ listening: listener.where }, 'the door for other nodes listens')
  }
  const follow = () => {
    turning = turning.then(turnDoor).catch((error: unknown) => {
      // The address may come to its device later than the agent starts.
      problem('the door for other nodes cannot listen; it is tried again')(error)
      clearTimeout(again)
      again = setTimeout(follow, AGAIN_MS).unref()
    })
    return turning
  }

  async function dismissed(): Promise<object> {
    // Somebody who was a member may say so, to one that was away and does not know yet.
    if (await isCountedOn(cluster)) throw conflict('IS_MEMBER', 'another member takes this node for one')
    log.warn('a member says that this node was removed from the cluster')
    await engine.dismissed()
    return { status: 'removed' }
  }

  /** Only of one that does not vote yet: a member leaves by itself. */
  async function withdraw(node: string): Promise<object> {
    const member = engine.standing()?.members.find(({ id }) => id === node)
    const removed = member?.voter === false
    if (removed) await remove(cluster, node)
    return { status: 'withdrawn', removed }
  }

  const stopListening = engine.onChange(() => {
    tell()
    void follow()
  })
  const farewells = setInterval(() => {
    const standing = engine.standing()
    if (standing?.acts && standing.writable)
      void sayFarewell(cluster).catch(problem('a former member could not be told'))
  }, FAREWELL_MS).unref()
  const stopAsking = askWhomToTrust(cluster)
  const timer = setInterval(() => {
    void follow()
    void tidy(cluster).catch((error: unknown) =>
      log.warn({ err: error }, 'the leader could not tidy up; it tries again'),
    )
  }, EVERY_MS).unref()
  tell()
  void follow()

  return async () => {
    stopped = true
    clearInterval(timer)
    clearInterval(farewells)
    stopAsking()
    clearTimeout(again)
    stopListening()
    await follow()
  }
}
