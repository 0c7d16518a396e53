import type { Outbox } from '../../state/events.ts'
import type { Reader } from './reader.ts'

/**
 * Wakes all `readers` in one go after a commit, not inside it: the answer to the change does not wait for them.
 * Returns how to stop that.
 */
export function wakeTogether(
  outbox: Pick<Outbox, 'onWake'>,
  readers: { readonly size: number; keys(): Iterable<Reader> },
): () => void {
  let due = false
  return outbox.onWake(() => {
    if (due || readers.size === 0) return
    due = true
    setImmediate(() => {
      due = false
      for (const reader of readers.keys()) reader.wake()
    })
  })
}
