/** What a node must remember about its licence across restarts, so that neither a clock nor a reinstall undoes it. */

export interface LicenceMarks {
  /** The latest time this node has seen. */
  readonly highWater?: Date | undefined
  /** Since when the installed licence's hardware does not match. */
  readonly hardwareMismatchSince?: Date | undefined
  /** When the node's one evaluation began. */
  readonly evaluationUsedAt?: Date | undefined
}

/** `highWater` is always known once opened. */
export type CurrentMarks = LicenceMarks & { readonly highWater: Date }

export interface Marks {
  readonly current: CurrentMarks
  /** Why the last save failed; undefined when it did not. */
  readonly problem: string | undefined
  /** The clock shows `time`: raises the high-water mark. */
  see(time: Date): void
  /** The installed licence does (not) match the hardware; the first mismatch is remembered. */
  seeHardware(mismatch: boolean): void
  /** Saves when something must not be lost or a minute has passed; a failure becomes `problem` and is tried again. */
  saveSometimes(): void
  /** Saves now. @throws what `write` throws */
  save(): Promise<void>
  /** Remembers the evaluation, or throws and forgets it. */
  useEvaluation(start: Date): Promise<void>
}

/** Between two saves that only raise the high-water mark. */
const SAVE_EVERY_MS = 60_000

/** @param write stores all marks; its calls never overlap */
export function openMarks(stored: LicenceMarks, write: (marks: LicenceMarks) => void | Promise<void>): Marks {
  let current: CurrentMarks = { ...stored, highWater: stored.highWater ?? new Date(0) }
  let problem: string | undefined
  let savedAt = current.highWater.getTime()
  let urgent = false
  let writing: Promise<void> = Promise.resolve()

  function save(): Promise<void> {
    savedAt = current.highWater.getTime()
    urgent = false
    // `current` is read when the turn comes: a later write can never carry older marks.
    const result = writing.then(() => write(current))
    writing = result.then(
      () => {
        problem = undefined
      },
      (error) => {
        problem = error instanceof Error ? error.message : String(error)
      },
    )
    return result
  }

  return {
    get current() {
      return current
    },
    get problem() {
      return problem
    },
    see(time) {
      if (time > current.highWater) current = { ...current, highWater: time }
    },
    seeHardware(mismatch) {
      if (mismatch === (current.hardwareMismatchSince !== undefined)) return
      current = { ...current, hardwareMismatchSince: mismatch ? current.highWater : undefined }
      urgent = true
    },
    saveSometimes() {
      if (!urgent && current.highWater.getTime() - savedAt < SAVE_EVERY_MS) return
      // The failure is kept in `problem`; the next minute tries again.
      save().catch(() => undefined)
    },
    save,
    async useEvaluation(start) {
      current = { ...current, evaluationUsedAt: start }
      try {
        await save()
      } catch (error) {
        current = { ...current, evaluationUsedAt: undefined }
        throw error
      }
    },
  }
}
