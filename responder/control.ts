/** The socket over which the agent says what to answer. One agent at a time: a new connection ends the one before. */
import { chmodSync, renameSync, statSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { readLines, writeLine } from '../dataplane/responder/lines.ts'
import type {
  Acknowledgement,
  Answer,
  FromResponder,
  Request,
  ResponderPassage,
} from '../dataplane/responder/protocol.ts'
import { PORTION } from '../dataplane/responder/protocol.ts'
import { type Holding, Refused } from './holding.ts'
import type { LeaseBuffer } from './leases.ts'

/** How long lease news are gathered: clients wait for them to be stored. */
const TELL_MS = 1
/** The same while the agent has much to read still. */
const LATER_MS = 50
/** Bytes that an agent may leave unread before it is told more. */
const MAX_WAITING = 1 << 20

export interface Control {
  /** Told to the agent, if one is there. */
  tell(document: FromResponder): void
  /** There are more lease news; the agent is told of them a moment later. */
  leasesCame(): void
  /** No agent is there, and none can find this process any more. */
  isOrphan(): boolean
  close(): void
}

export interface ControlParts {
  path: string
  /** Tells this build from others. */
  build: string
  holding: Holding
  leases: LeaseBuffer
  /** Gives up all sockets, so that a successor may have them. */
  release(): Promise<unknown>
  /** Ends the process. */
  stop(): void
}

/** Listens on `path`, in the place of whoever did before. Resolves when it can be reached. */
export async function openControl({ path, build, holding, leases, release, stop }: ControlParts): Promise<Control> {
  let agent: Socket | undefined
  /** Number of the last lease news that the agent was told. */
  let told = 0
  let telling: NodeJS.Timeout | undefined

  function tellLeases(): void {
    telling = undefined
    if (agent === undefined) return
    // What changes meanwhile is told in its last state.
    if (agent.writableLength > MAX_WAITING) {
      leasesCame(LATER_MS)
      return
    }
    const news = leases.all().filter(({ seq }) => seq > told)
    for (let at = 0; at < news.length; at += PORTION) writeLine(agent, { leases: news.slice(at, at + PORTION) })
    told = news.at(-1)?.seq ?? told
  }

  function leasesCame(ms = TELL_MS): void {
    telling ??= setTimeout(tellLeases, ms)
  }

  function serve(socket: Socket): void {
    agent?.destroy()
    agent = socket
    let staged: ResponderPassage[] = []
    let tail: Promise<unknown> = Promise.resolve()
    socket.on('error', () => {})
    socket.on('close', () => {
      if (agent !== socket) return
      agent = undefined
      leases.connected(false)
    })
    leases.connected(true)

    async function answer(request: Exclude<Request, { do: 'ping' }>): Promise<Answer> {
      const { id } = request
      switch (request.do) {
        case 'stage':
          staged = staged.concat(request.passages)
          return { id, ok: {} }
        case 'commit': {
          const batch = staged
          staged = []
          await holding.commit(batch, request.patient)
          return { id, ok: { size: holding.size } }
        }
        case 'digest':
          return { id, ok: { digest: await holding.digest() } }
        case 'list':
          return { id, ok: { entries: await holding.list(request.after, PORTION) } }
        case 'stop':
          await release()
          return { id, ok: {} }
      }
    }

    async function take(request: Exclude<Request, { do: 'ping' }>): Promise<void> {
      try {
        const answered = await answer(request)
        // First: who has the answer may be asked at once what waits.
        writeLine(socket, { waiting: holding.waiting() })
        writeLine(socket, answered)
      } catch (error) {
        const text = error instanceof Error ? error.message : String(error)
        writeLine(socket, { id: request.id, [error instanceof Refused ? 'refused' : 'failed']: text })
      }
      // However the connection ends.
      if (request.do !== 'stop') return
      if (socket.destroyed) stop()
      else socket.once('close', stop).end()
    }

    writeLine(socket, { hello: { build } })
    told = 0
    tellLeases()
    readLines(socket, (document) => {
      const message = document as Request | Acknowledgement
      if (message.do === 'leases') leases.drop(message.upTo)
      else if (message.do === 'ping') writeLine(socket, { id: message.id, ok: {} } satisfies Answer)
      else tail = tail.then(() => take(message))
    })
  }

  const server: Server = createServer(serve)
  // Under another name first: at no time is there a socket that nobody listens on, or that others may open.
  const fresh = `${path}.${process.pid}`
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(fresh, resolve)
  })
  chmodSync(fresh, 0o600)
  const { ino } = statSync(fresh)
  renameSync(fresh, path)
  return {
    tell(document) {
      if (agent) writeLine(agent, document)
    },
    leasesCame: () => leasesCame(),
    isOrphan() {
      if (agent) return false
      try {
        return statSync(path, { throwIfNoEntry: false })?.ino !== ino
      } catch {
        // In a folder that nobody but root may look into.
        return false
      }
    },
    close() {
      clearTimeout(telling)
      leases.close()
      // The socket's file stays: nobody but root may remove it, and it may be a successor's already.
      agent?.destroy()
      server.close()
    },
  }
}
