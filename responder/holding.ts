/** What this process has been told to answer: all entries by key, and how a batch of them comes into force or not at all. */
import {
  type DhcpEntry,
  type DnsEntry,
  isDns,
  isListener,
  type ResponderEntry,
} from '../dataplane/responder/entries.ts'
import { openSum, type ResponderPassage, type Waiting } from '../dataplane/responder/protocol.ts'

/** Passages that are taken over in one go, between which packets are answered; 1000 take some 10 ms. */
const SLICE = 1000

export interface EnginePassage<E> {
  before?: E
  after?: E
}

/** What answers one protocol. */
export interface Engine<E extends ResponderEntry> {
  /** Complete when it returns. @throws Error for what it cannot hold; then nothing of the batch is in force */
  apply(passages: readonly EnginePassage<E>[]): void
  /** Opens and closes sockets; all of it or nothing. Rejects with a sentence for the operator. */
  applyListeners(passages: readonly EnginePassage<E>[]): Promise<void>
  close(): Promise<void>
}

export interface Engines {
  dns: Engine<DnsEntry>
  dhcp: Engine<DhcpEntry>
}

export interface Holding {
  /**
   * Puts a batch into force. With `patient`, a listener that cannot be opened waits, and is tried again by {@link retry}.
   * @throws Refused when nothing of it is in force; any other error: it is not known what is
   */
  commit(passages: readonly ResponderPassage[], patient: boolean): Promise<void>
  /** Tries the listeners that wait once more. Resolves to whether any came into force. */
  retry(): Promise<boolean>
  waiting(): Waiting[]
  digest(): Promise<string>
  readonly size: number
  /** Up to `count` entries by ascending key, those after `after`. */
  list(after: string, count: number): Promise<ResponderEntry[]>
}

export class Refused extends Error {
  override readonly name = 'Refused'
}

export function openHolding(engines: Engines): Holding {
  const entries = new Map<string, ResponderEntry>()
  const waiting = new Map<string, Waiting & { entry: ResponderEntry }>()
  const sum = openSum()
  /** Keys in order, made when somebody lists and kept until something changes. */
  let ordered: string[] | undefined
  let tail: Promise<unknown> = Promise.resolve()

  function engineOf(entry: ResponderEntry): Engine<ResponderEntry> {
    // Each engine is given its own kinds only.
    return (isDns(entry) ? engines.dns : engines.dhcp) as Engine<ResponderEntry>
  }

  function hold(passages: readonly ResponderPassage[]): void {
    for (const { before, after } of passages) {
      if (before) {
        sum.flip(before)
        entries.delete(before.key)
        if (after === undefined) waiting.delete(before.key)
      }
      if (after) {
        sum.flip(after)
        entries.set(after.key, after)
      }
    }
    ordered = undefined
  }

  async function listen(passages: readonly ResponderPassage[], patient: boolean): Promise<void> {
    const done: ResponderPassage[] = []
    const waited = [...waiting]
    const failed: { step: ResponderPassage; error: unknown }[] = []
    async function open(step: ResponderPassage): Promise<void> {
      const entry = entryOf(step)
      await engineOf(entry).applyListeners([step])
      waiting.delete(entry.key)
      done.push(step)
    }
    for (const passage of passages) {
      // One that waits has no socket to close.
      const before = passage.before && !waiting.has(passage.before.key) ? passage.before : undefined
      const step = { ...(before && { before }), ...(passage.after && { after: passage.after }) }
      if (before || passage.after) await open(step).catch((error: unknown) => void failed.push({ step, error }))
    }
    // What was in their way may have been one that another step has closed.
    const refused: typeof failed = []
    for (const { step } of failed) await open(step).catch((error: unknown) => void refused.push({ step, error }))
    const [first] = refused
    if (first === undefined) return
    if (patient && refused.every(({ step }) => step.after !== undefined)) {
      for (const { step, error } of refused) await wait(step, error)
      return
    }
    // Should this fail, it is not known what is open.
    for (const step of done.reverse()) await engineOf(entryOf(step)).applyListeners([reverse(step)])
    for (const [key, one] of waited) waiting.set(key, one)
    throw new Refused(messageOf(first.error))
  }

  async function wait({ before, after }: ResponderPassage, error: unknown): Promise<void> {
    if (after === undefined) return
    if (before) await engineOf(before).applyListeners([{ before }])
    waiting.set(after.key, { key: after.key, reason: messageOf(error), entry: after })
  }

  /** One at a time. */
  function inLane<T>(work: () => Promise<T>): Promise<T> {
    const run = tail.then(work)
    tail = run.catch(() => {})
    return run
  }

  async function commit(passages: readonly ResponderPassage[], patient: boolean): Promise<void> {
    const known = passages.flatMap(({ before, after }): ResponderPassage[] => {
      // What was told of an entry may be older than what is held.
      const held = entries.get((after ?? before)?.key ?? '')
      return held || after ? [{ ...(held && { before: held }), ...(after && { after }) }] : []
    })
    const applied: (() => void)[] = []
    try {
      for (const engine of [engines.dns, engines.dhcp] as Engine<ResponderEntry>[]) {
        const part = inTurn(known.filter((passage) => engineOf(entryOf(passage)) === engine))
        for (let at = 0; at < part.length; at += SLICE) {
          const slice = part.slice(at, at + SLICE)
          orRefused(() => engine.apply(slice))
          applied.push(() => engine.apply(slice.map(reverse).reverse()))
          // Packets get their turn.
          if (part.length > SLICE) await new Promise(setImmediate)
        }
      }
      // Last, so that what a new one says is complete.
      const listeners = known.filter((passage) => isListener(entryOf(passage)))
      await listen(listeners, patient)
    } catch (error) {
      for (const back of applied.reverse()) back()
      throw error
    }
    hold(known)
  }

  async function retry(): Promise<boolean> {
    let any = false
    for (const { entry } of [...waiting.values()]) {
      try {
        await engineOf(entry).applyListeners([{ after: entry }])
        waiting.delete(entry.key)
        any = true
      } catch {
        // Still in the way, and told already.
      }
    }
    return any
  }

  return {
    commit: (passages, patient) => inLane(() => commit(passages, patient)),
    retry: () => inLane(retry),
    waiting: () => [...waiting.values()].map(({ key, reason }) => ({ key, reason })),
    digest: () => inLane(async () => sum.text()),
    get size() {
      return entries.size
    },
    list: (after, count) =>
      inLane(async () => {
        ordered ??= [...entries.keys()].sort()
        const from = firstAfter(ordered, after)
        return ordered.slice(from, from + count).flatMap((key) => entries.get(key) ?? [])
      }),
  }
}

const reverse = ({ before, after }: ResponderPassage): ResponderPassage => ({
  ...(after && { before: after }),
  ...(before && { after: before }),
})

/** A passage has a side at least. */
const entryOf = ({ before, after }: ResponderPassage): ResponderEntry => (after ?? before) as ResponderEntry

/** What others lie in comes before them and goes after them: zones, networks. */
function inTurn(passages: readonly ResponderPassage[]): ResponderPassage[] {
  const turn = ({ before, after }: ResponderPassage) => {
    const { kind } = (after ?? before) as ResponderEntry
    return kind === 'dns_record' || kind === 'dhcp_binding' || kind === 'dhcp_refusal' ? 1 : after ? 0 : 2
  }
  return [0, 1, 2].flatMap((one) => passages.filter((passage) => turn(passage) === one))
}

/** What an engine throws before it has done anything is a refusal. */
function orRefused(work: () => void): void {
  try {
    work()
  } catch (error) {
    throw new Refused(messageOf(error))
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** Index of the first of the sorted `keys` that is greater. */
function firstAfter(keys: readonly string[], after: string): number {
  let [low, high] = [0, keys.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((keys[middle] ?? '') > after) high = middle
    else low = middle + 1
  }
  return low
}
