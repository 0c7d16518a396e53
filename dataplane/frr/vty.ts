/**
 * The vty socket of an FRR daemon (lib/vty.c, as vtysh speaks it): a command ends with NUL; the answer is text without NUL, then
 * three NUL and a byte that says how it went (lib/command.h: 0 is CMD_SUCCESS, 1 CMD_WARNING).
 */
import { connect, type Socket } from 'node:net'
import { openTurns } from './turns.ts'

/** Marks the end of an answer. */
const END = 4
/** Commands on their way at once: bgpd stops reading when nobody takes its answers. */
const PORTION = 200
/** Longest wait for the first answer; one that lists a million routes to somebody else is silent for seconds. */
const HANDSHAKE_MS = 20_000

export interface Outcome {
  ok: boolean
  text: string
}

export interface Vty {
  /**
   * Runs all of them, also when one fails, and resolves with an outcome each. Rejects when the connection ends before. No other call's
   * commands come in between: what leads into a node and out of it is one call.
   */
  run(commands: readonly string[]): Promise<Outcome[]>
  /**
   * Only on a connection on which nothing else runs; the text of the answer as it comes. Taking slowly makes the daemon wait. Throws when
   * the daemon says nothing for `patience` ms.
   */
  stream(command: string): AsyncIterable<Buffer>
  close(): void
}

/** Splits what comes into answers. Fed with anything at all it never throws and holds no more than it was given. */
export function answerReader(take: (outcome: Outcome) => void): (chunk: Buffer) => void {
  let rest: Buffer[] = []
  return (chunk) => {
    rest.push(chunk)
    if (!chunk.includes(0) && !(rest.length > 1 && rest.at(-2)?.includes(0))) return
    let all = rest.length === 1 ? chunk : Buffer.concat(rest)
    for (let end = all.indexOf(0); end >= 0 && all.length >= end + END; end = all.indexOf(0)) {
      take({ ok: all[end + END - 1] === 0, text: all.toString('utf8', 0, end) })
      all = all.subarray(end + END)
    }
    rest = all.length === 0 ? [] : [all]
  }
}

/** Connects and goes to the enable node. Rejects when nobody listens, or does not answer within `patience` ms. `onLost`: once it was open, and not by `close`. */
export async function openVty(path: string, patience: number, onLost: () => void = () => {}): Promise<Vty> {
  const socket = connect(path)
  await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  const waiting: { resolve(outcome: Outcome): void; reject(error: Error): void }[] = []
  let [ready, closed] = [false, false]
  const inTurn = openTurns()
  const gone = () => new Error('the connection to the daemon ended')
  socket.on('error', () => {})
  socket.on('close', () => {
    for (const { reject } of waiting.splice(0)) reject(gone())
    if (ready && !closed) onLost()
  })
  const reader = answerReader((outcome) => waiting.shift()?.resolve(outcome))
  socket.on('data', reader)

  const ask = (commands: readonly string[], ms = patience): Promise<Outcome[]> => {
    if (socket.destroyed) return Promise.reject(gone())
    const answers = commands.map(() => new Promise<Outcome>((resolve, reject) => waiting.push({ resolve, reject })))
    socket.write(commands.map((command) => `${command}\0`).join(''))
    // One that hangs must not keep whoever waits.
    const timer = setTimeout(() => socket.destroy(), ms)
    return Promise.all(answers).finally(() => clearTimeout(timer))
  }

  const vty: Vty = {
    run: (commands) =>
      inTurn(async () => {
        const outcomes: Outcome[] = []
        for (let at = 0; at < commands.length; at += PORTION)
          outcomes.push(...(await ask(commands.slice(at, at + PORTION))))
        return outcomes
      }),
    stream(command) {
      socket.off('data', reader)
      socket.write(`${command}\0`)
      return untilEnd(socket, patience)
    },
    close() {
      closed = true
      socket.destroy()
    },
  }
  await ask(['enable'], Math.min(patience, HANDSHAKE_MS))
  ready = true
  return vty
}

async function* untilEnd(socket: Socket, patience: number): AsyncIterable<Buffer> {
  const wait = () => setTimeout(() => socket.destroy(), patience)
  let timer = wait()
  try {
    for await (const chunk of socket as AsyncIterable<Buffer>) {
      // Only the daemon's time counts, not that of whoever takes.
      clearTimeout(timer)
      const end = chunk.indexOf(0)
      if (end >= 0) return yield chunk.subarray(0, end)
      yield chunk
      timer = wait()
    }
  } finally {
    clearTimeout(timer)
  }
  throw new Error('the connection to the daemon ended')
}
