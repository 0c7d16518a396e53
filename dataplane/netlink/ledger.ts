/**
 * What is of ours in the kernel, by what the kernel tells things apart by (identityOf), and what shall be and sleeps.
 * An entry sleeps when the kernel refused it at a time when nobody was there to be told: its device is gone, its gateway
 * out of reach, its place taken. It is tried again once something that it waits for has changed.
 */
import type { Pending } from '../plane.ts'
import type { Steps } from '../slices.ts'
import type { Refused } from './apply/refusal.ts'
import { identityOf, linksOf, type NetlinkEntry } from './entries.ts'
import { sameNetlink } from './sameness.ts'

interface Sleeper {
  refused: Refused
  /** Something that it waits for has changed. */
  ripe: boolean
  /** What the kernel holds in its place, where a change of it was refused. */
  stands?: NetlinkEntry
}

export class Ledger {
  #held = new Map<string, NetlinkEntry>()
  /** By key: two areas may want what only one can have. */
  #asleep = new Map<string, Sleeper>()
  /** Name of a link → how many entries, held or asleep, are it or rest on it. */
  #uses = new Map<string, number>()
  /** Far end → near end of the pairs held. */
  #near = new Map<string, string>()

  held(identity: string): NetlinkEntry | undefined {
    return this.#held.get(identity)
  }

  all(): Iterable<NetlinkEntry> {
    return this.#held.values()
  }

  /** What the kernel holds in the place of an entry, which may sleep. */
  standing(key: string): NetlinkEntry | undefined {
    return this.#own(key) ?? this.#asleep.get(key)?.stands
  }

  get anySleeps(): boolean {
    return this.#asleep.size > 0
  }

  sleeps(key: string): boolean {
    return this.#asleep.has(key)
  }

  /** Whether anything is that link or rests on it. */
  uses(link: string): boolean {
    return this.#uses.has(link)
  }

  /** Whether an entry in the kernel, of a kind that counts, rests on a link; the link itself does not count. */
  restsOn(link: string, counts: (kind: NetlinkEntry['kind']) => boolean = () => true): boolean {
    if (!this.uses(link)) return false
    for (const entry of this.#held.values()) {
      if (counts(entry.kind) && linksOf(entry).includes(link)) return true
    }
    return false
  }

  /** The pair whose far end a link is. */
  nearOf(link: string): NetlinkEntry | undefined {
    const name = this.#near.get(link)
    return name === undefined ? undefined : this.held(`link/${name}`)
  }

  /** Notes by which link a route leads out that the kernel chose one for. */
  learn(entry: NetlinkEntry): void {
    const held = this.held(identityOf(entry.key))
    if (held?.kind !== 'route' || entry.kind !== 'route' || held.link !== undefined || !entry.seen) return
    this.hold({ ...held, seen: entry.seen })
  }

  pending(): Pending[] {
    return Array.from(this.#asleep.values(), ({ refused }) => ({ key: refused.entry.key, reason: refused.text }))
  }

  hold(entry: NetlinkEntry): void {
    const identity = identityOf(entry.key)
    const other = this.#held.get(identity)
    if (other && other.key !== entry.key) this.drop(other.key)
    this.drop(entry.key)
    this.#held.set(identity, entry)
    this.#count(entry, 1)
  }

  sleep(refused: Refused): void {
    const stands = this.standing(refused.entry.key)
    this.drop(refused.entry.key)
    this.#asleep.set(refused.entry.key, { refused, ripe: false, ...(stands && { stands }) })
    this.#count(refused.entry, 1)
  }

  drop(key: string): void {
    const held = this.#own(key)
    for (const entry of [held, this.#asleep.get(key)?.refused.entry]) if (entry) this.#count(entry, -1)
    if (held) this.#held.delete(identityOf(key))
    this.#asleep.delete(key)
  }

  #own(key: string): NetlinkEntry | undefined {
    const held = this.#held.get(identityOf(key))
    return held?.key === key ? held : undefined
  }

  /** How things stand with a key, to be put back by calling what this returns. */
  remember(key: string): () => void {
    const [held, sleeper] = [this.#own(key), this.#asleep.get(key)]
    return () => {
      this.drop(key)
      const stood = held ?? sleeper?.stands
      if (stood) this.hold(stood)
      if (sleeper) this.sleep(sleeper.refused)
    }
  }

  /** Wakes those that `concerns` is true for; true when there were any. */
  wake(concerns: (entry: NetlinkEntry) => boolean): boolean {
    let any = false
    for (const sleeper of this.#asleep.values()) {
      if (sleeper.ripe || !concerns(sleeper.refused.entry)) continue
      sleeper.ripe = true
      any = true
    }
    return any
  }

  /**
   * Takes over an observation and returns what it comes to for whoever compares it with what is desired: an entry that
   * cannot be there now (`whyNot`), or was refused and there is no reason to try again, counts as present.
   */
  *adopt(
    observed: readonly NetlinkEntry[],
    desired: readonly NetlinkEntry[],
    whyNot: (entry: NetlinkEntry) => Refused | undefined,
  ): Steps<NetlinkEntry[]> {
    const found = new Map(observed.map((entry) => [entry.key, entry]))
    const next = new Ledger()
    for (const entry of desired) {
      yield
      const present = found.get(entry.key)
      if (present && sameNetlink(present, entry)) {
        next.hold(agreed(present, entry))
        continue
      }
      if (present) next.hold(present)
      const refused = this.#still(entry) ?? (present ? undefined : whyNot(entry))
      if (refused === undefined) continue
      next.sleep(refused)
      found.set(entry.key, entry)
    }
    for (const entry of observed) {
      yield
      if (!next.standing(entry.key)) next.hold(entry)
    }
    this.#held = next.#held
    this.#asleep = next.#asleep
    this.#uses = next.#uses
    this.#near = next.#near
    return [...found.values()]
  }

  /** The refusal of an entry that sleeps on. */
  #still(entry: NetlinkEntry): Refused | undefined {
    const sleeper = this.#asleep.get(entry.key)
    return sleeper && !sleeper.ripe && sameNetlink(sleeper.refused.entry, entry) ? sleeper.refused : undefined
  }

  #count(entry: NetlinkEntry, by: 1 | -1): void {
    if (entry.kind === 'link' && entry.device.type === 'veth') {
      if (by > 0) this.#near.set(entry.device.peer, entry.name)
      else this.#near.delete(entry.device.peer)
    }
    for (const name of involved(entry)) {
      const uses = (this.#uses.get(name) ?? 0) + by
      if (uses > 0) this.#uses.set(name, uses)
      else this.#uses.delete(name)
    }
  }
}

/** Links that an entry is or rests on. */
export function involved(entry: NetlinkEntry): string[] {
  if (entry.kind !== 'link') return linksOf(entry)
  const peer = entry.device.type === 'veth' ? [entry.device.peer] : []
  return [entry.name, ...peer, ...linksOf(entry)]
}

/**
 * What is held, without what nobody asked for; a route keeps the link that it leads out by, and whether an address moves
 * only the wanted one says.
 */
function agreed(observed: NetlinkEntry, wanted: NetlinkEntry): NetlinkEntry {
  if (wanted.kind === 'address') return wanted
  return wanted.kind === 'route' && observed.kind === 'route' && observed.seen
    ? { ...wanted, seen: observed.seen }
    : wanted
}
