/** A process of a test in another place, such as a namespace: asked over its stdin, it answers on its stdout. */
import type { ChildProcess, SpawnOptions } from 'node:child_process'
import { on } from 'node:events'
import { createInterface } from 'node:readline'

export interface Partner {
  /** Rejects with what went wrong over there. */
  ask<T>(question: unknown): Promise<T>
  child: ChildProcess
}

export type Spawn = (command: string, args: readonly string[], options: SpawnOptions) => ChildProcess

interface Reply {
  answer?: unknown
  problem?: string
}

/** Starts the module `file`, which calls `answerAll`, by `spawn`. One question after the other. */
export function startPartner(spawn: Spawn, file: string): Partner {
  const child = spawn(process.execPath, [file, MARK], { stdio: ['pipe', 'pipe', 'inherit'] })
  const { stdin, stdout } = child
  if (stdin === null || stdout === null) throw new TypeError('input and output must be piped')
  const replies = on(createInterface({ input: stdout }), 'line', { close: ['close'] })
  let turn: Promise<unknown> = Promise.resolve()
  return {
    child,
    ask<T>(question: unknown) {
      const asked = turn.then(async () => {
        stdin.write(`${JSON.stringify(question)}\n`)
        const { value, done } = await replies.next()
        if (done) throw new Error(`${file} ended without an answer`)
        const { answer, problem }: Reply = JSON.parse(value[0])
        if (problem !== undefined) throw new Error(problem)
        // Both ends of a question are written by the same test.
        return answer as T
      })
      turn = asked.catch(() => {})
      return asked
    },
  }
}

const MARK = 'partner'

/** In the process: answers every question, until nobody asks any more. Does nothing where `file` is only imported. */
export async function answerAll<Q>(file: string, reply: (question: Q) => unknown): Promise<void> {
  if (file !== process.argv[1] || process.argv[2] !== MARK) return
  for await (const line of createInterface({ input: process.stdin })) {
    const said = await Promise.resolve()
      .then(() => reply(JSON.parse(line)))
      .then(
        (answer): Reply => ({ answer }),
        (error: unknown): Reply => ({ problem: String(error) }),
      )
    process.stdout.write(`${JSON.stringify(said)}\n`)
  }
  process.exit(0)
}
