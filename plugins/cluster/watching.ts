/**
 * Looks at the cluster once a second: tells how it stands, says that this node is there, and does what falls to the leader, or to who acts
 * for it (learners that have caught up become voters, leadership goes to who must have it).
 */
import { system } from '../../core/state/events.ts'
import type { EngineContext, EngineOptions } from './engine.ts'
import type { Etcd } from './etcd/client.ts'
import { promoteReady, yieldTo } from './membership.ts'
import { openPresence, type Presence } from './presence.ts'
import { MEMBERS_REF, queries } from './queries.ts'
import { hasLeader, look, type Peer, type Standing, standingFrom, standingOf, type View } from './standing.ts'
import { type Self, self } from './tables.ts'

export interface Watching {
  start(etcd: Etcd, me: Self): Promise<void>
  stop(): Promise<void>
  /** undefined: nothing is watched. */
  standing(): Standing | undefined
  /** Looks now instead of in a second, and sees all that was there when it was asked to. */
  look(): Promise<void>
  /** Runs `work`, which starts etcd anew: what etcd cannot tell meanwhile is as it was. */
  hold(work: () => Promise<void>): Promise<void>
  onChange(listener: () => void): () => void
  /** Tells the listeners. */
  tell(): void
}

export interface WatchingEvents {
  /** The last other member that had come is gone; told until this stops. */
  alone(): void
  /** Once a minute, and soon again when it has failed. `status`: undefined while the members cannot make changes. */
  upkeep(me: Self, status: View['status'] | undefined): Promise<void>
}

const POLL_MS = 1000
/** While something is about to happen: an election, a learner that catches up. */
const SOON_MS = 250
const UPKEEP_MS = 60_000
/** After it has failed, so many looks later. */
const UPKEEP_AGAIN = 5

interface Watched {
  etcd: Etcd
  me: Self
  presence: Presence
  timer: NodeJS.Timeout | undefined
  /** Of the look that runs. */
  looking: Promise<void> | undefined
  standing: Standing | undefined
  /** Another member that had come was seen. */
  hadOthers: boolean
  /** When upkeep is due; performance.now(). */
  due: number
  /** It runs. */
  keeping: boolean
}

export function openWatching(
  context: EngineContext,
  { pollMs = POLL_MS }: EngineOptions,
  events: WatchingEvents,
): Watching {
  const { log, read, now } = context
  const listeners = new Set<() => void>()
  const seen = new Map<string, Date>()
  let watched: Watched | undefined
  let remembering = false
  let holding = false

  async function lookOnce(of: Watched): Promise<void> {
    clearTimeout(of.timer)
    void of.presence.beat()
    let view = await ask(of)
    // One that is silent once may be busy: what waits for it is not ended, and what is shared not refused, before it was silent twice.
    if (view === undefined && of.standing?.writable && watched === of) view = await ask(of)
    if (watched !== of) return
    const isHeld = holding && of.standing?.writable && !(view && hasLeader(view.status))
    if (!isHeld) take(of, view)
    if (view && !isHeld && of.standing?.acts) await lead(of, view)
    const busy = isHeld || !of.standing?.writable || of.standing.members.some(({ voter }) => !voter)
    of.timer = setTimeout(() => void lookNow(of), busy ? Math.min(SOON_MS, pollMs) : pollMs)
    if (!of.keeping && performance.now() >= of.due) void keepUp(of, of.standing?.writable ? view?.status : undefined)
  }

  async function ask({ etcd }: Watched): Promise<View | undefined> {
    try {
      return await look(etcd)
    } catch (error) {
      log.debug({ err: error }, 'etcd does not say how it stands')
      return undefined
    }
  }

  /** Most of it needs a majority, and is done as soon as there is one. */
  async function keepUp(of: Watched, status: View['status'] | undefined): Promise<void> {
    of.keeping = true
    try {
      await events.upkeep(of.me, status)
      if (status) of.due = performance.now() + UPKEEP_MS
    } catch (error) {
      of.due = performance.now() + UPKEEP_AGAIN * pollMs
      log.warn({ err: error }, 'upkeep is tried again')
    } finally {
      of.keeping = false
    }
  }

  const lookNow = (of: Watched): Promise<void> => {
    of.looking ??= lookOnce(of).finally(() => {
      of.looking = undefined
    })
    return of.looking
  }

  function take(of: Watched, view: View | undefined): void {
    const { node, cluster, address } = of.me
    const before = of.standing
    const standing = view
      ? standingOf(node, cluster, view, seen)
      : standingFrom(node, cluster, address, queries(read).members.all())
    for (const { id, online } of standing.members) if (online && id !== node) seen.set(id, now())
    // An etcd that says nothing for a moment has not forgotten whose key is whose.
    const keyOf = (id: string) => before?.members.find((peer) => peer.id === id)?.key
    of.standing = {
      ...standing,
      members: standing.members.map((peer) => ({
        ...peer,
        key: view ? peer.key : keyOf(peer.id),
        lastSeen: seen.get(peer.id),
      })),
    }
    // What waits for a majority would wait until its deadline.
    if (before?.writable && !standing.writable) of.etcd.cancelWaiting()
    if (view) remember(of.me, of.standing)
    if (digest(before) !== digest(of.standing)) tell()
    if (view === undefined) return
    const come = [view.came, ...[...view.records].map(([id, { joined }]) => (joined ? id : undefined))]
    if (!of.hadOthers && come.some((id) => id !== undefined && id !== node)) note(of)
    if (of.hadOthers && standing.writable && standing.members.length === 1) events.alone()
  }

  /** Also for a start at which the last of them is gone already. */
  function note(of: Watched): void {
    of.hadOthers = true
    context
      .mutate(system('cluster'), (tx) => {
        tx.update(self).set({ hadOthers: true }).run()
        return { result: undefined, touch: [], events: [] }
      })
      .catch((error: unknown) => {
        of.hadOthers = false
        log.error({ err: error }, 'that other members have come could not be written down; it is tried again')
      })
  }

  /** Keeps what is known of the others for a time when nobody can be asked: when it changes, not every second. */
  function remember({ node }: Self, { members }: Standing): void {
    const others = members.filter(({ id }) => id !== node)
    const kept = new Map(
      queries(read)
        .members.all()
        .map((row) => [row.node, row]),
    )
    const same = ({ id, address, voter, online, lastSeen }: Peer) => {
      const row = kept.get(id)
      const known = online ? row?.lastSeen != null : row?.lastSeen === (lastSeen?.toISOString() ?? null)
      return row?.address === address && row.voter === voter && known
    }
    if (remembering || (others.length === kept.size && others.every(same))) return
    remembering = true
    context
      .mutate(system('cluster'), (tx) => {
        const q = queries(tx)
        for (const id of kept.keys()) if (!others.some((other) => other.id === id)) q.gone.run({ node: id })
        for (const { id, address, voter, lastSeen } of others) {
          q.seen.run({ node: id, address, voter: voter ? 1 : 0, lastSeen: lastSeen?.toISOString() ?? null })
        }
        return { result: undefined, touch: [MEMBERS_REF], events: [] }
      })
      .catch((error: unknown) => log.error({ err: error }, 'who the members are could not be written down'))
      .finally(() => {
        remembering = false
      })
  }

  async function lead({ etcd, me }: Watched, view: View): Promise<void> {
    try {
      if (view.yieldTo !== undefined && view.yieldTo !== me.node) await yieldTo(etcd, view.yieldTo)
      await promoteReady(etcd, view)
    } catch (error) {
      log.warn({ err: error }, 'the leader could not do its part; it tries again')
    }
  }

  function tell(): void {
    for (const listener of listeners) listener()
  }

  return {
    async start(etcd, me) {
      for (const { node, lastSeen } of queries(read).members.all()) if (lastSeen) seen.set(node, new Date(lastSeen))
      const presence = openPresence(etcd, me.node)
      const fresh = {
        timer: undefined,
        looking: undefined,
        standing: undefined,
        hadOthers: me.hadOthers,
        due: 0,
        keeping: false,
      }
      watched = { etcd, me, presence, ...fresh }
      await lookNow(watched)
    },
    async stop() {
      const of = watched
      if (of === undefined) return
      watched = undefined
      clearTimeout(of.timer)
      await of.presence.close()
      seen.clear()
      tell()
    },
    tell,
    standing: () => watched?.standing,
    async look() {
      // The one that runs may have begun before.
      await watched?.looking
      if (watched) await lookNow(watched)
    },
    async hold(work) {
      holding = true
      try {
        await work()
      } finally {
        holding = false
      }
    },
    onChange(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
}

/** What listeners are told of: not that somebody was seen once more. */
const digest = (standing: Standing | undefined): string =>
  JSON.stringify(standing && { ...standing, members: standing.members.map(({ lastSeen: _, ...peer }) => peer) })
