/** The agent's end of the responder's control socket: finds the process, starts it, and asks it one thing after another. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { connect as connectTo, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { GroundLost, KernelRefusal, UncertainOutcome } from '../plane.ts'
import { signOf, watchHealth, whyHung } from './health.ts'
import { heard, openSieve } from './heard.ts'
import { readLines, writeLine } from './lines.ts'
import { listenerOf } from './peer.ts'
import type { Acknowledgement, Answer, LeaseNews, Reply, Request, TRIAL, Waiting } from './protocol.ts'

/** A healthy one is there in 0.3 s. */
const START_MS = 15_000
/** One that is alive greets at once. */
const GREETING_MS = 5000
/** How long one that answers pings may take for a change, or for everything anew: 100,000 records take about a second. */
const CHANGE_MS = 8000
const RESTORE_MS = 60_000
/** Enough to read what waits on the connection. */
const LISTENING_MS = 250
/** One that is killed is gone in a moment. */
const DEATH_MS = 1000

interface Waiter {
  resolve(reply: Reply): void
  reject(error: Error): void
}

type Question = Request extends infer R ? (R extends Request ? Omit<R, 'id'> : never) : never

export interface Session {
  readonly pid: number
  /** See build.ts. */
  readonly build: string
  /**
   * Rejects with KernelRefusal when nothing of it is in force (GroundLost: nor is anything else, because the process had to be
   * ended), with UncertainOutcome when that is not known.
   */
  ask(question: Question): Promise<Reply>
  /** From now on it is asked whether it lives, and ended where it does not. It must be of this build. */
  watch(): void
  /** Lease news up to this one are stored. */
  stored(upTo: number): void
  close(): void
  /** Ends the connection as if the other end had. */
  end(): void
}

export interface SessionEvents {
  /** The connection ended, and it was not `close` that ended it. */
  onLost(): void
  onLeases(news: LeaseNews[]): void
  onWaiting(waiting: Waiting[]): void
  onProblem(text: string): void
}

/** Resolves to undefined when nobody listens on `path`. */
export async function findResponder(path: string, events: SessionEvents): Promise<Session | undefined> {
  const socket = connectTo(path)
  try {
    await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  } catch {
    return undefined
  }
  const pid = listenerOf(socket)
  const asked = signOf(pid)
  return greeted(socket, events).catch(() => {
    // One that was stopped would keep its addresses from the next.
    const why = asked && whyHung(asked, signOf(pid))
    if (why === undefined) return undefined
    events.onProblem(`process ${pid} was ended: it did not greet for ${GREETING_MS / 1000} s, and ${why}`)
    process.kill(pid, 'SIGKILL')
    return undefined
  })
}

/**
 * util-linux's setpriv, twice because once would drop the bounding set first. On all threads of what it runs: no program that is
 * run can give a capability any more, and root has those alone that become the two of responder/privileges.ts and the account.
 */
const SETPRIV = '/usr/bin/setpriv'
const UNTIL_IT_SERVES = '-all,+net_bind_service,+net_raw,+setuid,+setgid'
const CONFINED = [`--inh-caps=${UNTIL_IT_SERVES}`, SETPRIV, '--no-new-privs', '--bounding-set=-all']

/** Starts a responder that outlives this process, or a trial. Rejects with a sentence for the operator. */
export async function startResponder(path: string, events: SessionEvents, ...how: (typeof TRIAL)[]): Promise<Session> {
  const child = launch([path, ...how])
  await serving(child)
  const session = await findResponder(path, events)
  if (session === undefined) throw cannotStart(`it ended as soon as it had started (${await howItEnded(child)})`)
  return session
}

/** Nothing that it should hold is in force then. */
const cannotStart = (why: string) => new GroundLost(`the responder cannot be started: ${why}`)

/** The connection may tell of its end first. */
async function howItEnded(child: ChildProcess): Promise<string | number> {
  const hasEnded = () => child.signalCode ?? child.exitCode
  if (hasEnded() === null) await Promise.race([once(child, 'exit'), delay(DEATH_MS)])
  return hasEnded() ?? 'or does not greet'
}

const isRoot = (): boolean => process.getuid?.() === 0

function launch(args: readonly string[]): ChildProcess {
  return fork(new URL('../../responder/main.js', import.meta.url), args, {
    detached: true,
    // What libuv would hand to an io_uring, no filter of system calls would see.
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C', TZ: 'UTC', UV_USE_IO_URING: '0' },
    execPath: isRoot() ? SETPRIV : process.execPath,
    execArgv: isRoot() ? [...CONFINED, process.execPath] : [],
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  })
}

async function serving(child: ChildProcess): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const failed = (why: string) => reject(cannotStart(why))
    const timer = setTimeout(() => {
      child.kill('SIGKILL')
      failed(`it is not ready after ${START_MS / 1000} s`)
    }, START_MS)
    child.once('message', ({ failed: why }: { failed?: string }) => {
      clearTimeout(timer)
      if (why === undefined) resolve()
      else failed(why)
    })
    child.once('error', (error) => failed(error.message))
    child.once('exit', (code, signal) => {
      clearTimeout(timer)
      failed(`${isRoot() ? 'setpriv or the process' : 'the process'} ended (${signal ?? code})`)
    })
  })
  // Nothing of it shall keep this process alive.
  child.unref()
}

function greeted(socket: Socket, events: SessionEvents): Promise<Session> {
  const waiting = new Map<number, Waiter>()
  let next = 1
  let closed = false
  let unwatch = () => {}
  /** Why it was ended; then it holds nothing any more. */
  let ended: string | undefined
  let isGone = async () => false

  /** One that hangs would keep the sockets from its successor. `started`: of the process that was greeted. */
  function giveUp(pid: number, started: string | undefined, why: string): void {
    if (ended !== undefined || socket.destroyed) return
    // Its number may be another's by now.
    if (started !== undefined && signOf(pid)?.started === started) {
      ended = why
      events.onProblem(`process ${pid} was ended: ${why}`)
      process.kill(pid, 'SIGKILL')
    }
    // The kernel closes the connection with the process, and all its other sockets.
    setTimeout(() => socket.destroy(), DEATH_MS).unref()
  }

  /** What is not known of a process that lives is known of one that has ended: it holds nothing. */
  async function lost(questions: readonly Waiter[]): Promise<void> {
    if (questions.length === 0) return
    const gone = ended !== undefined || (await isGone())
    for (const { reject: refuse } of questions) {
      if (!gone) refuse(new UncertainOutcome('the responder ended before it answered'))
      else
        refuse(new GroundLost(ended ? `the responder was ended: ${ended}` : 'the responder ended before it answered'))
    }
  }

  function answered(answer: Answer): void {
    const asked = waiting.get(answer.id)
    waiting.delete(answer.id)
    if ('ok' in answer) asked?.resolve(answer.ok)
    else if (answer.refused !== undefined) asked?.reject(new KernelRefusal(answer.refused))
    else asked?.reject(new UncertainOutcome(`the responder: ${answer.failed}`))
  }

  function sessionOf({ build }: { build: string }): Session {
    // As the kernel tells it: who says another's number would have that one killed.
    const pid = listenerOf(socket)
    const started = signOf(pid)?.started
    isGone = () => hasEnded(pid, started)
    const ask = (question: Question): Promise<Reply> => {
      const id = next++
      const patience = question.do === 'commit' && question.patient ? RESTORE_MS : CHANGE_MS
      return new Promise((resolve, reject) => {
        if (socket.destroyed) return void lost([{ resolve, reject }])
        const why = `it did not carry out a change within ${patience / 1000} s`
        const cancel = question.do === 'ping' ? () => {} : afterListening(patience, () => giveUp(pid, started, why))
        const settle =
          <T>(then: (value: T) => void) =>
          (value: T) => {
            cancel()
            then(value)
          }
        waiting.set(id, { resolve: settle(resolve), reject: settle(reject) })
        writeLine(socket, { id, ...question })
      })
    }
    return {
      pid,
      build,
      ask,
      watch() {
        unwatch = watchHealth({
          ping: () => ask({ do: 'ping' }),
          sign: () => signOf(pid),
          onHung: (why) => giveUp(pid, started, why),
        })
      },
      stored(upTo) {
        writeLine(socket, { do: 'leases', upTo } satisfies Acknowledgement)
      },
      end: () => void socket.destroy(),
      close() {
        closed = true
        socket.destroy()
      },
    }
  }

  return new Promise((resolve, reject) => {
    let greeting = false
    const patience = setTimeout(() => socket.destroy(), GREETING_MS)
    socket.on('error', () => {})
    socket.on('close', () => {
      clearTimeout(patience)
      unwatch()
      if (!greeting) return reject(new KernelRefusal('the responder does not answer'))
      const questions = [...waiting.values()]
      waiting.clear()
      if (!closed) events.onLost()
      void lost(questions)
    })
    const problem = openSieve(events.onProblem)
    readLines(socket, (document) => {
      const message = heard(document)
      if (message === undefined) {
        problem('it said what no responder says; the connection was closed')
        socket.destroy()
      } else if ('hello' in message) {
        greeting = true
        clearTimeout(patience)
        resolve(sessionOf(message.hello))
      } else if ('leases' in message) events.onLeases(message.leases)
      else if ('waiting' in message) events.onWaiting(message.waiting)
      else if ('problem' in message) problem(message.problem)
      else answered(message)
    })
  })
}

/** A timer that, where this process was late itself, still lets it hear what has come meanwhile. Returns how to end it. */
function afterListening(ms: number, then: () => void): () => void {
  let timer = setTimeout(() => {
    timer = setTimeout(then, LISTENING_MS)
  }, ms)
  return () => clearTimeout(timer)
}

/** Whether the process ends in a moment: the kernel closes its connections first. */
async function hasEnded(pid: number, started: string | undefined): Promise<boolean> {
  for (const since = performance.now(); performance.now() - since < DEATH_MS; await delay(10)) {
    const now = signOf(pid)
    if (now === undefined || now.started !== started || /[ZX]/.test(now.state)) return started !== undefined
  }
  return false
}
