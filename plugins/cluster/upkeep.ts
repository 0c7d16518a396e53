/** What goes on while a node is in a cluster: its door is open, what happens to its members is told, who never came is forgotten. */
import type { EventDraft, Stop } from '../../core/area.ts'
import { system } from '../../core/state/events.ts'
import type { RestListener } from '../../core/transport/listener.ts'
import { type Cluster, peersOf, roleOf } from './cluster.ts'
import { admitByCode, remove } from './join.ts'
import { openDoor } from './mesh/door.ts'
import type { Peer, Status } from './schemas.ts'
import { tidy } from './tidy.ts'

const EVERY_MS = 60_000
const AGAIN_MS = 5000
const GRACE_MS = 2000

type Role = Status['state']

export function startUpkeep(cluster: Cluster): Stop {
  const { engine, context, told } = cluster
  const { log, elsewhere, config } = context
  const problem = (what: string) => (error: unknown) => log.error({ err: error }, what)

  let role = roleOf(engine).state
  let known: Map<string, Peer> | undefined

  /** What this node has seen since it looked last, in the order in which it is to be told. */
  function news(): EventDraft[] {
    const { state } = roleOf(engine)
    const events = state === role ? [] : [stateChanged(role, state)]
    role = state
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
    const why = standing && !standing.writable ? 'no majority of the cluster can be reached' : undefined
    context.ails(why)
    const events = news()
    if (events.length === 0) return
    context
      .mutate(system('cluster'), () => ({ result: undefined, touch: [], events }))
      .catch(problem('what happened to the cluster could not be told'))
  }

  let door: { listener: RestListener; key: string; certificate: string } | undefined
  let turning: Promise<unknown> = Promise.resolve()
  let stopped = false
  let again: NodeJS.Timeout | undefined

  /** Open as long as this node is in a cluster, with the certificate that it has. */
  async function turnDoor(): Promise<void> {
    const tls = stopped ? undefined : engine.tls()
    const self = engine.standing()?.members.find(({ id }) => id === engine.self)
    const key = tls && self ? `${self.address} ${tls.ca}` : undefined
    if (door && door.key !== key) {
      const { listener } = door
      door = undefined
      await listener.close(GRACE_MS)
    }
    if (tls === undefined || self === undefined || key === undefined) return
    if (door) {
      if (door.certificate !== tls.certificate)
        door.listener.setCertificate({ cert: tls.certificate + tls.ca, key: tls.key })
      door.certificate = tls.certificate
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
      problem: problem('a call by another node failed'),
    })
    door = { listener, key, certificate: tls.certificate }
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

  /** Only of one that does not vote yet: a member leaves by itself. */
  async function withdraw(node: string): Promise<object> {
    const member = engine.standing()?.members.find(({ id }) => id === node)
    if (member && !member.voter) await remove(cluster, node)
    return { status: 'withdrawn' }
  }

  const stopListening = engine.onChange(() => {
    tell()
    void follow()
  })
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
    clearTimeout(again)
    stopListening()
    await follow()
  }
}
