/** A reader of the event stream in a process of its own, so that it can be killed and stopped at any moment. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { WebSocket } from 'ws'
import type { Event } from '../../core/state/events.ts'
import type { Frame } from '../../core/transport/stream/cursor.ts'
import type { Hello } from '../../core/transport/stream/frames.ts'
import type { RunningAgent } from '../agent.ts'
import type { Netns } from '../netns.ts'

/** What the process says of a frame, or of the end of its connection. */
export type Line =
  | { hello: Hello['data'] }
  | { gap: { from: number; to: number } }
  | { id: number; type: string; subject: number }
  | { closed: number; reason: string }

export interface ReaderProcess {
  lines: AsyncIterable<Line>
  child: ChildProcess
  /** SIGKILL; resolves once it is gone. */
  kill(): Promise<void>
}

/** Reads `wss://127.0.0.1:7072` inside `ns`, from after event `since`; without one from now. */
export function startReader(ns: Netns, { token }: Pick<RunningAgent, 'token'>, since?: number): ReaderProcess {
  const child = ns.spawn(process.execPath, [import.meta.filename, token, String(since ?? '')])
  if (child.stdout === null) throw new TypeError('the output of the reader must be piped')
  return {
    lines: parsed(createInterface({ input: child.stdout })),
    child,
    async kill() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const gone = once(child, 'exit')
      child.kill('SIGKILL')
      await gone
    },
  }
}

async function* parsed(lines: AsyncIterable<string>): AsyncIterable<Line> {
  for await (const line of lines) yield JSON.parse(line) as Line
}

/** Writes to a pipe are over when they return, so a frame that was taken is a line that can be read. */
function read(token: string, since: string): void {
  const say = (line: Line) => void process.stdout.write(`${JSON.stringify(line)}\n`)
  const socket = new WebSocket(`wss://127.0.0.1:7072/api/v1/events${since === '' ? '' : `?since=${since}`}`, {
    headers: { authorization: `Bearer ${token}` },
    rejectUnauthorized: false,
  })
  socket.on('message', (text) => say(brief(JSON.parse(String(text)))))
  // Without an agent there is a connection refused, which is followed by close.
  socket.on('error', () => {})
  socket.on('close', (code, reason) => say({ closed: code, reason: String(reason) }))
}

function brief(frame: Frame | Hello): Line {
  if ('id' in frame) return { id: frame.id, type: frame.type, subject: subjectOf(frame) }
  return frame.type === 'stream.gap' ? { gap: frame.data } : { hello: frame.data }
}

/** Every event of the firewall tells the object, or the id of what is gone. */
const subjectOf = ({ data }: Event): number => Number((data as { id?: number } | null)?.id)

if (import.meta.filename === process.argv[1]) read(process.argv[2] ?? '', process.argv[3] ?? '')
