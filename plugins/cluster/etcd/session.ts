/** A running etcd and the connection to it: what ends unasked is started again, later each time. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type EtcdChild, type EtcdExit, type EtcdSettings, startEtcd } from './child.ts'
import { type Etcd, openEtcd } from './client.ts'

export interface Session {
  readonly etcd: Etcd
  /** How it ended last, when it is not running. */
  lastExit(): EtcdExit | undefined
  /** Process id, for whoever looks at it; 0 while there is none. */
  pid(): number
  /** The node has another certificate: from now on it is the one by which etcd is asked. */
  renew(): void
  /** Has etcd end in order and start anew, with the files as they are now. Does not wait until it answers. */
  restart(): Promise<void>
  /** Ends etcd in order, and the connection. A second call waits for the first. */
  close(): Promise<void>
}

export interface SessionEvents {
  /** Its warnings. */
  log(line: string): void
  ended(exit: EtcdExit): void
  /** It ended because this member was removed; it is not started again. */
  removed(): void
}

const [FIRST_PAUSE_MS, LONGEST_PAUSE_MS] = [250, 10_000]
/** Whoever has run for so long did not end for the reason of the start. */
const STEADY_MS = 60_000

export async function openSession(settings: EtcdSettings, events: SessionEvents): Promise<Session> {
  const file = (name: string) => readFileSync(join(settings.certificateDir, name), 'utf8')
  const { clientPort: port, node } = settings
  const tls = () => ({ ca: file('ca.pem'), certificate: file('cert.pem'), key: file('key.pem') })
  const etcd = await openEtcd({ port, node, ...tls() })
  const closing = new AbortController()
  let child: EtcdChild | undefined
  let last: EtcdExit | undefined
  let again = false

  /** That it cannot be started at all, for want of file descriptors perhaps, is an end as well. */
  async function runOnce(): Promise<EtcdExit> {
    try {
      child = await startEtcd(settings, events.log)
      return await (closing.signal.aborted ? child.stop() : child.exited)
    } catch (error) {
      return { code: 1, said: (error as Error).message }
    } finally {
      child = undefined
    }
  }

  async function keepRunning(): Promise<void> {
    for (let pause = FIRST_PAUSE_MS; !closing.signal.aborted; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      const since = performance.now()
      last = undefined
      const exit = await runOnce()
      if (closing.signal.aborted) {
        last = exit
        return
      }
      if (again) {
        again = false
        pause = FIRST_PAUSE_MS / 2
        continue
      }
      last = exit
      if (exit.code === 0) return events.removed()
      events.ended(exit)
      if (performance.now() - since > STEADY_MS) pause = FIRST_PAUSE_MS
      await delay(pause, undefined, { signal: closing.signal }).catch(() => {})
    }
  }
  const running = keepRunning()
  let closed: Promise<void> | undefined

  return {
    etcd,
    lastExit: () => last,
    pid: () => child?.pid ?? 0,
    renew: () => etcd.renew(tls()),
    async restart() {
      const old = child
      if (old === undefined) return
      again = true
      await old.stop()
    },
    close() {
      closed ??= (async () => {
        closing.abort()
        await child?.stop()
        await running.catch(() => {})
        etcd.close()
      })()
      return closed
    },
  }
}

/**
 * Resolves once `probe` does. Rejects with a sentence for the operator when etcd ends instead, or when that takes longer than `ms`.
 * `passes`: ends after which it may well answer when it is started again.
 */
export async function untilAnswers<T>(
  session: Session,
  probe: (etcd: Etcd) => Promise<T>,
  ms: number,
  signal?: AbortSignal,
  passes: (exit: EtcdExit) => boolean = () => false,
): Promise<T> {
  const end = performance.now() + ms
  for (;;) {
    signal?.throwIfAborted()
    try {
      return await probe(session.etcd)
    } catch (error) {
      const exit = session.lastExit()
      if (exit && !passes(exit)) throw new Error(`etcd ended (${exit.code ?? 'by a signal'}): ${exit.said}`)
      if (performance.now() > end) throw new Error(`etcd does not answer: ${exit?.said ?? (error as Error).message}`)
      await delay(20)
    }
  }
}
