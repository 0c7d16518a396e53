/** Reads the outbox for one reader: in order, every event once, and a gap wherever events are no longer kept (D111). */
import type { Event, Outbox } from '../../state/events.ts'
import type { Gap } from './frames.ts'
import type { Filter } from './question.ts'

/** Most events read at once, so that a long replay leaves the agent time for everything else. */
export const PAGE = 200

export type Frame = Event | Gap

/** Where to begin: after event `since` of `stream`; without `since`, after the latest. */
export interface Start {
  since?: number | undefined
  stream?: string | undefined
}

export interface Cursor {
  /** Id of the last event that was read, wanted or not. */
  readonly position: number
  /** The frames of the next page, none if nothing in it is wanted. `more`: there are events behind it already. */
  next(): { frames: Frame[]; more: boolean }
}

export function openCursor(outbox: Pick<Outbox, 'stream' | 'after' | 'bounds'>, start: Start, wants: Filter): Cursor {
  const { since, stream = outbox.stream } = start
  const { oldest, latest } = outbox.bounds()
  const foreign = since !== undefined && (since > latest || stream !== outbox.stream)
  let position = foreign ? Math.max(oldest - 1, 0) : (since ?? latest)
  let gap = foreign ? gapOf(0, position) : undefined

  return {
    get position() {
      return position
    },
    next() {
      const page = outbox.after(position, PAGE)
      const frames: Frame[] = gap === undefined ? [] : [gap]
      gap = undefined
      for (const event of page) {
        // Ids have no holes: one that is missing was pruned before this reader came to it.
        if (event.id !== position + 1) frames.push(gapOf(position + 1, event.id - 1))
        if (wants(event)) frames.push(event)
        position = event.id
      }
      return { frames, more: page.length === PAGE }
    },
  }
}

const gapOf = (from: number, to: number): Gap => ({ v: 1, type: 'stream.gap', data: { from, to } })
