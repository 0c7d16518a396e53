/**
 * One agent per state directory. The lock is flock(2) on an open file, and the nft helper inherits that file: a helper
 * that still finishes a transaction of a killed agent keeps the next agent waiting, so the kernel stands still when the
 * next one looks at it.
 */
import { closeSync, ftruncateSync, mkdirSync, openSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import koffi from 'koffi'

const LOCK_EX_NB = 2 | 4
const PATIENCE_MS = 15_000

export interface StateLock {
  /** Hand it to processes that must end before another agent may start. */
  fd: number
  /** A second call does nothing. */
  release(): void
}

/** Waits for an agent that is just ending; rejects, naming its pid, when one keeps running. */
export async function lockState(stateDir: string, patienceMs = PATIENCE_MS): Promise<StateLock> {
  const flock = koffi.load('libc.so.6').func('int flock(int fd, int operation)')
  mkdirSync(stateDir, { recursive: true, mode: 0o700 })
  const path = join(stateDir, 'agent.lock')
  const fd = openSync(path, 'a+', 0o600)
  const deadline = performance.now() + patienceMs
  while (flock(fd, LOCK_EX_NB) !== 0) {
    if (performance.now() > deadline) {
      closeSync(fd)
      throw new Error(`another agent (pid ${readFileSync(path, 'utf8').trim()}) runs on ${stateDir}: stop it first`)
    }
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  ftruncateSync(fd)
  writeSync(fd, `${process.pid}\n`)
  let held = true
  return {
    fd,
    release() {
      // The number may belong to another file by the second call.
      if (held) closeSync(fd)
      held = false
    },
  }
}
