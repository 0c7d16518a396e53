/** The agent's end of the responder's control socket: finds the process, starts it, and asks it one thing after another. */
import { type ChildProcess, fork } from 'node:child_process'
import { connect as connectTo, type Socket } from 'node:net'
import { KernelRefusal, UncertainOutcome } from '../plane.ts'
import { readLines, writeLine } from './lines.ts'
import type { Acknowledgement, Answer, FromResponder, LeaseNews, Reply, Request, Waiting } from './protocol.ts'

/** A healthy one is there in 0.3 s. */
const START_MS = 15_000
/** One that is alive greets at once. */
const GREETING_MS = 5000
/** Longest batch waited for; 100,000 records take about a second. */
const ANSWER_MS = 30_000

type Question = Request extends infer R ? (R extends Request ? Omit<R, 'id'> : never) : never

export interface Session {
  readonly pid: number
  /** See build.ts. */
  readonly build: string
  /** Rejects with KernelRefusal when nothing of it is in force, with UncertainOutcome when that is not known. */
  ask(question: Question): Promise<Reply>
  /** Lease news up to this one are stored. */
  stored(upTo: number): void
  close(): void
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
  return greeted(socket, events).catch(() => undefined)
}

/** Starts a responder that outlives this process. Rejects with a sentence for the operator. */
export async function startResponder(path: string, events: SessionEvents): Promise<Session> {
  const child = fork(new URL('../../responder/main.js', import.meta.url), [path], {
    detached: true,
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C', TZ: 'UTC' },
    execArgv: [],
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  })
  await serving(child)
  const session = await findResponder(path, events)
  if (session === undefined) throw new KernelRefusal('the responder ended as soon as it had started')
  return session
}

async function serving(child: ChildProcess): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const failed = (why: string) => reject(new KernelRefusal(`the responder cannot be started: ${why}`))
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
      failed(`it ended (${signal ?? code})`)
    })
  })
  // Nothing of it shall keep this process alive.
  child.unref()
}

function greeted(socket: Socket, events: SessionEvents): Promise<Session> {
  const waiting = new Map<number, { resolve(reply: Reply): void; reject(error: Error): void }>()
  let next = 1
  let closed = false

  /** One that hangs would keep the sockets from its successor. */
  function giveUp(pid: number): void {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // Gone already.
    }
    socket.destroy()
  }

  function answered(answer: Answer): void {
    const asked = waiting.get(answer.id)
    waiting.delete(answer.id)
    if ('ok' in answer) asked?.resolve(answer.ok)
    else if (answer.refused !== undefined) asked?.reject(new KernelRefusal(answer.refused))
    else asked?.reject(new UncertainOutcome(`the responder: ${answer.failed}`))
  }

  const sessionOf = ({ pid, build }: { pid: number; build: string }): Session => ({
    pid,
    build,
    ask(question) {
      const id = next++
      return new Promise((resolve, reject) => {
        if (socket.destroyed) return reject(new UncertainOutcome('the responder is gone'))
        const timer = setTimeout(giveUp, ANSWER_MS, pid)
        const settle =
          <T>(then: (value: T) => void) =>
          (value: T) => {
            clearTimeout(timer)
            then(value)
          }
        waiting.set(id, { resolve: settle(resolve), reject: settle(reject) })
        writeLine(socket, { id, ...question })
      })
    },
    stored(upTo) {
      writeLine(socket, { do: 'leases', upTo } satisfies Acknowledgement)
    },
    close() {
      closed = true
      socket.destroy()
    },
  })

  return new Promise((resolve, reject) => {
    let greeting = false
    const patience = setTimeout(() => socket.destroy(), GREETING_MS)
    socket.on('error', () => {})
    socket.on('close', () => {
      clearTimeout(patience)
      if (!greeting) return reject(new KernelRefusal('the responder does not answer'))
      for (const { reject: refuse } of waiting.values()) {
        refuse(new UncertainOutcome('the responder ended before it answered'))
      }
      waiting.clear()
      if (!closed) events.onLost()
    })
    readLines(socket, (document) => {
      const message = document as FromResponder
      if ('hello' in message) {
        greeting = true
        clearTimeout(patience)
        resolve(sessionOf(message.hello))
      } else if ('leases' in message) events.onLeases(message.leases)
      else if ('waiting' in message) events.onWaiting(message.waiting)
      else if ('problem' in message) events.onProblem(message.problem)
      else answered(message)
    })
  })
}
