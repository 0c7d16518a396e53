/** The agent's end of the nft helper process: one command buffer is one kernel transaction, strictly in order. */
import { type ChildProcess, fork } from 'node:child_process'
import { KernelRefusal, UncertainOutcome } from '../plane.ts'
import type { Answer, Request } from './helper.ts'

/** Longest transaction waited for; 16,384 rules load in about 0.5 s. */
const TIMEOUT_MS = 60_000

export interface NftSession {
  /**
   * Runs a script as one transaction and resolves with its output. Rejects with KernelRefusal when nothing of it is in
   * force, with UncertainOutcome when the helper ended before it answered; the next call starts a new helper.
   */
  run(script: string): Promise<string>
  close(): Promise<void>
}

interface Waiting {
  resolve: (text: string) => void
  reject: (error: Error) => void
}

/**
 * Starts the helper, which keeps the file `lock` open; `restarted` is told when another had to be started. Rejects with a sentence for the operator when libnftables cannot
 * be used.
 */
export async function openNft(lock?: number, restarted: () => void = () => {}): Promise<NftSession> {
  let next = 1
  let child: ChildProcess | undefined
  let waiting = new Map<number, Waiting>()
  let closed = false

  function start(): Promise<void> {
    const started = fork(new URL('./helper.js', import.meta.url), {
      env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C', TZ: 'UTC' },
      execArgv: ['--max-old-space-size=128', '--max-semi-space-size=2'],
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'inherit', 'ipc', ...(lock === undefined ? [] : [lock])],
    })
    const mine = new Map<number, Waiting>()
    child = started
    waiting = mine
    started.on('message', ({ id, ok, text }: Answer) => {
      const entry = mine.get(id)
      mine.delete(id)
      if (ok) entry?.resolve(text)
      else entry?.reject(new KernelRefusal(firstLine(text)))
    })
    const ended = (how: string) => {
      if (child === started) child = undefined
      for (const { reject } of mine.values()) reject(new UncertainOutcome(`the nft helper ended (${how})`))
      mine.clear()
    }
    started.on('exit', (code, signal) => ended(String(signal ?? code)))
    // A fork that failed, or a message to a helper that has just gone: without a listener either would end the agent.
    started.on('error', (error) => ended(error.message))
    return new Promise((resolve, reject) => mine.set(0, { resolve: () => resolve(), reject }))
  }

  async function run(script: string): Promise<string> {
    if (closed) throw new KernelRefusal('the nft session is closed')
    if (child === undefined) {
      restarted()
      await start()
    }
    const [target, mine, id] = [child, waiting, next++]
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => target?.kill('SIGKILL'), TIMEOUT_MS)
      const settle =
        <T>(then: (value: T) => void) =>
        (value: T) => {
          clearTimeout(timer)
          then(value)
        }
      mine.set(id, { resolve: settle(resolve), reject: settle(reject) })
      target?.send({ id, script } satisfies Request)
    })
  }

  try {
    await start()
  } catch (error) {
    throw new Error(`libnftables.so.1 cannot be used: install libnftables1 (${(error as Error).message})`)
  }
  return {
    run,
    async close() {
      closed = true
      const ending = child
      if (ending === undefined) return
      await new Promise((resolve) => {
        ending.once('exit', resolve)
        ending.disconnect()
      })
    },
  }
}

/** `internal:0:0-0: Error: Could not process rule: No such file or directory` → what follows `Error: `. */
function firstLine(text: string): string {
  const line = text.split('\n').find((candidate) => candidate.includes('Error:')) ?? text.split('\n')[0] ?? ''
  return line.slice(line.indexOf('Error:') + 'Error:'.length).trim() || 'refused without a reason'
}
