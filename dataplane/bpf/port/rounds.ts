/** A task that is done in rounds, never two at once: who asks during one is answered by the next. */

/** What failed that nobody waits for is tried again so long after. */
const AGAIN_MS = 1000

export class Rounds {
  readonly #round: () => Promise<void>
  readonly #onProblem: (error: unknown) => void
  #running: Promise<void> | undefined
  #asked = false
  #again: NodeJS.Timeout | undefined
  #closed = false

  constructor(round: () => Promise<void>, onProblem: (error: unknown) => void) {
    this.#round = round
    this.#onProblem = onProblem
  }

  /** Resolves when a round has ended that began after this call. @throws whatever a round throws */
  run(): Promise<void> {
    this.#asked = true
    this.#running ??= (async () => {
      while (this.#asked && !this.#closed) {
        this.#asked = false
        await this.#round()
      }
    })().finally(() => {
      this.#running = undefined
    })
    return this.#running
  }

  /** The same for whom nobody waits. */
  soon(): void {
    if (this.#closed) return
    this.run().catch((error: unknown) => {
      this.#onProblem(error)
      clearTimeout(this.#again)
      if (!this.#closed) this.#again = setTimeout(() => this.soon(), AGAIN_MS).unref()
    })
  }

  /** Resolves when no round runs, and none will. */
  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#again)
    await this.#running?.catch(() => {})
  }
}
