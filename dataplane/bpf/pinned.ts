/** What somebody deletes below the agent's bpf directory is missed before the next change, and pinned again. */
import { statSync } from 'node:fs'

/** The kernel's clock of files goes on in steps of up to 10 ms: a folder this young may change again unseen. */
const STEP_MS = 30

/** Folders of pins. Asking whether one has changed costs the same however many pins there are. */
export class PinFolders {
  readonly #dirs: readonly string[]
  #seen: string | undefined

  constructor(dirs: readonly string[]) {
    this.#dirs = dirs
  }

  /**
   * Calls `repair` unless all folders are as they were when it was last called. What it changes itself, it may be asked
   * for once more. @throws whatever `repair` does; then it is called the next time, too
   */
  async hold(repair: () => Promise<void>): Promise<void> {
    if (this.#seen !== undefined && this.#seen === this.#now()) return
    this.#seen = undefined
    const before = this.#now()
    await repair()
    const after = this.#now()
    // What changed while `repair` looked was its own pin or somebody's deletion: the next look tells.
    this.#seen = before === after ? after : undefined
  }

  /** Each folder by its inode and when its names last changed; undefined while that was too short a time ago. */
  #now(): string | undefined {
    const states = this.#dirs.map((dir) => statSync(dir, { throwIfNoEntry: false }))
    if (states.some((it) => it !== undefined && Math.abs(Date.now() - it.mtimeMs) < STEP_MS)) return undefined
    return states.map((it) => (it === undefined ? 'none' : `${it.dev}.${it.ino}.${it.mtimeMs}`)).join(' ')
  }
}
