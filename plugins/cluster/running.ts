/** A member's etcd, and what lives on it: rows and blocks that members share, the look at how they stand, upkeep. */
import { createPublicKey } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { refreshCertificate } from './authority.ts'
import { openBlocks } from './blocks.ts'
import { fingerprintOf } from './certificates.ts'
import type { EngineContext, EngineOptions } from './engine.ts'
import type { EtcdSettings } from './etcd/child.ts'
import { openSession, type Session } from './etcd/session.ts'
import { openSpace, type Space } from './etcd/space.ts'
import type { Status } from './etcd/words.ts'
import type { Files } from './files.ts'
import * as membership from './membership.ts'
import { openReplica, type Replica } from './replicate/replica.ts'
import type * as tables from './tables.ts'
import { openTrust, type Trust, type TrustParts } from './trust.ts'
import { openWatching, type Watching } from './watching.ts'

export interface Running {
  readonly replica: Replica
  readonly watching: Watching
  readonly trust: Trust
  /** undefined: no etcd is to run. */
  session(): Session | undefined
  /** Starts etcd. `alone`: see EtcdSettings. */
  run(me: tables.Self, state: EtcdSettings['state'], alone?: boolean): Promise<Session>
  /** From now on it is asked how the cluster stands, and followed. */
  live(session: Session, me: tables.Self): Promise<void>
  /** Ends all that, etcd last. */
  stop(): Promise<void>
}

export interface RunningEvents {
  /** The last other member is gone. */
  alone(): void
  /** etcd says that this member was removed. */
  removed(from: Session): void
  /** Runs one step of this node's life at a time. */
  next: TrustParts['next']
  /** The agent ends. */
  closing: AbortSignal
}

export function openRunning(
  context: EngineContext,
  options: EngineOptions,
  files: Files,
  events: RunningEvents,
): Running {
  const { log, now } = context
  const problem = (what: string) => (error: unknown) => log.error({ err: error }, `this member could not ${what}`)
  let session: Session | undefined
  let space: Space | undefined
  const blocks = openBlocks(context)
  const replica = openReplica(context, {
    writable: () => watching.standing()?.writable === true,
    cutOff: () => void watching.look(),
    told: blocks.told,
    reloaded: () => void blocks.exchange().catch(problem('take over the blocks of others')),
  })
  const watching = openWatching(context, options, {
    alone: events.alone,
    upkeep,
  })
  const trust = openTrust({ context, files, watching, ...events })
  function settings(me: tables.Self, state: 'new' | 'existing'): EtcdSettings {
    const { node, cluster, address, initialCluster } = me
    const { program, quota, clientPort } = options
    const own = { node, cluster, address, initialCluster, peerPort: me.peerPort, clientPort, state }
    return {
      ...own,
      ...(program && { program }),
      ...(quota && { quota }),
      dataDir: files.dataDir,
      certificateDir: files.certificateDir,
    }
  }

  async function run(me: tables.Self, state: 'new' | 'existing', alone = false): Promise<Session> {
    await refresh(me).catch(problem('make its certificate anew'))
    const running: Session = await openSession(
      { ...settings(me, state), alone },
      {
        log: sparingly((line) => log.warn({ etcd: line }, 'etcd')),
        ended: ({ code, said }) => log.error({ code, said }, 'etcd ended and is started again'),
        removed: () => events.removed(running),
      },
    )
    session = running
    return running
  }

  /** From now on it is asked how the cluster stands, and followed. */
  async function live(running: Session, me: tables.Self): Promise<void> {
    const own = running.etcd
    space = openSpace(own, (work) => membership.alone(own, me.node, work), options.quota)
    replica.start(own)
    blocks.start(own)
    await watching.start(own, me)
    await trust.start(running, me)
    void blocks.exchange().catch(problem('take over the blocks of others'))
  }

  async function upkeep(me: tables.Self, status: Status | undefined): Promise<void> {
    await refresh(me)
    if (session === undefined || status === undefined) return
    const key = ownKey(files)
    if (key !== undefined) await membership.arrive(session.etcd, { ...me, key }, now())
    await space?.look(status)
  }

  async function refresh(me: tables.Self): Promise<void> {
    if (!(await refreshCertificate(files, me, now()))) return
    session?.renew()
    log.info("this member's certificate was made anew")
  }

  async function stop(): Promise<void> {
    trust.stop()
    // First: what is being ended must not look as if it were there.
    await watching.stop()
    blocks.stop()
    await replica.stop()
    await session?.close()
    session = undefined
  }

  return { replica, watching, trust, session: () => session, run, live, stop }
}

function ownKey(files: Files): string | undefined {
  const tls = files.tls()
  return tls && fingerprintOf(createPublicKey(tls.key))
}

const LINES = 30
const LINES_MS = 60_000

/** So many lines a minute: an etcd that is cut off says the same again and again. */
function sparingly(log: (line: string) => void): (line: string) => void {
  let [since, told] = [0, 0]
  return (line) => {
    const time = performance.now()
    if (time - since > LINES_MS) [since, told] = [time, 0]
    if (++told <= LINES) log(line)
  }
}

/** From a member's removal to the end of its etcd. */
const EXIT_MS = 10_000
export const LEFT_MS = 2000

/** Has this node leave, and waits until its etcd has ended by itself. @throws ApiError 503 */
export async function depart(session: Session, place: membership.Place): Promise<void> {
  try {
    await membership.leave(session.etcd, place)
  } catch (error) {
    // It may have been done all the same.
    if (!(await hasEnded(session, LEFT_MS))) throw membership.asUnavailable(error)
  }
  await hasEnded(session, EXIT_MS)
}

/** Whether etcd has ended because this member was removed. */
export async function hasEnded(session: Session, ms: number): Promise<boolean> {
  for (const end = performance.now() + ms; performance.now() < end; await delay(20)) {
    if (session.lastExit()?.code === 0) return true
  }
  return false
}
