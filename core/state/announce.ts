/** Events that no change of an area brings: durable, in their place in the sequence, and whatever the kernel holds. */
import type { Db, EventDraft } from '../area.ts'
import type { Origin, Outbox } from './events.ts'
import type { Queue } from './queue.ts'
import type { Store } from './store.ts'

/**
 * Writes what `drafts` returns, in one transaction with whatever else it writes to `tx`; events are those of
 * core-events.ts. Resolves with the number of the last event once it is durable; rejects with the error of the store.
 */
export type Announce = (origin: Origin, drafts: (tx: Db) => EventDraft[]) => Promise<number | undefined>

export function openAnnouncer(parts: { store: Store; outbox: Outbox; queue: Queue }): Announce {
  const { store, outbox, queue } = parts
  return async (origin, drafts) => {
    const id = await queue.exclusively(async () => {
      store.begin()
      try {
        const last = await outbox.append(store.write, 'core', origin, drafts(store.write))
        store.commit()
        return last
      } catch (error) {
        store.rollback(error)
        throw error
      }
    })
    outbox.wake()
    return id
  }
}
