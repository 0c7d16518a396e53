/**
 * Lease news until the agent has stored them: the newest of each address, so that it is bounded by the addresses there are. A
 * client is told of its lease once that is done, so that it is listed when the client has it; without an agent, or with one
 * that does not keep up, it is told all the same.
 */
import type { LeaseNews } from '../dataplane/responder/protocol.ts'

/** Longest time that a client is kept waiting for the agent; it would ask again after some three seconds. */
const PATIENCE_MS = 1000

export interface LeaseBuffer {
  add(news: Omit<LeaseNews, 'seq'>): LeaseNews
  /** The agent has stored all up to this one. */
  drop(upTo: number): void
  /** In the order in which they happened. */
  all(): LeaseNews[]
  /**
   * Calls `then` once the agent has stored what is known of an address, after {@link PATIENCE_MS} at the latest: at once where it
   * has, and while no agent is there or the one that is has just let somebody wait in vain. A later call for the address takes the
   * place of an earlier one that still waits.
   */
  whenStored(net: number, address: string, then: () => void): void
  /** An agent came or went. */
  connected(is: boolean): void
  close(): void
}

interface Held {
  seq: number
  then(): void
  timer: NodeJS.Timeout
}

export function openLeaseBuffer(): LeaseBuffer {
  /** The order of a map is that of insertion. */
  const held = new Map<string, LeaseNews>()
  const clients = new Map<string, Held>()
  let seq = 0
  /** An agent is there and keeps up. */
  let keepsUp = false
  const keyOf = (net: number, address: string) => `${net}/${address}`

  function tell(upTo: number): void {
    for (const [key, { seq, then, timer }] of clients) {
      if (seq > upTo) continue
      clearTimeout(timer)
      clients.delete(key)
      then()
    }
  }

  function waitForNobody(): void {
    keepsUp = false
    tell(Number.POSITIVE_INFINITY)
  }

  return {
    add(news) {
      const numbered = { ...news, seq: ++seq }
      const key = keyOf(news.net, news.address)
      held.delete(key)
      held.set(key, numbered)
      return numbered
    },
    drop(upTo) {
      keepsUp = true
      for (const [key, news] of held) {
        if (news.seq > upTo) break
        held.delete(key)
      }
      tell(upTo)
    },
    all: () => [...held.values()],
    whenStored(net, address, then) {
      const key = keyOf(net, address)
      const news = held.get(key)
      if (news === undefined || !keepsUp) return then()
      clearTimeout(clients.get(key)?.timer)
      clients.set(key, { seq: news.seq, then, timer: setTimeout(waitForNobody, PATIENCE_MS) })
    },
    connected(is) {
      if (is) keepsUp = true
      else waitForNobody()
    },
    close: waitForNobody,
  }
}
