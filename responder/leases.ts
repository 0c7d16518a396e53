/** Lease news until the agent has stored them: the newest of each address, so that it is bounded by the addresses there are. */
import type { LeaseNews } from '../dataplane/responder/protocol.ts'

export interface LeaseBuffer {
  add(news: Omit<LeaseNews, 'seq'>): LeaseNews
  /** The agent has stored all up to this one. */
  drop(upTo: number): void
  /** In the order in which they happened. */
  all(): LeaseNews[]
}

export function openLeaseBuffer(): LeaseBuffer {
  /** The order of a map is that of insertion. */
  const held = new Map<string, LeaseNews>()
  let seq = 0
  return {
    add(news) {
      const numbered = { ...news, seq: ++seq }
      const key = `${news.net}/${news.address}`
      held.delete(key)
      held.set(key, numbered)
      return numbered
    },
    drop(upTo) {
      for (const [key, news] of held) {
        if (news.seq > upTo) return
        held.delete(key)
      }
    },
    all: () => [...held.values()],
  }
}
