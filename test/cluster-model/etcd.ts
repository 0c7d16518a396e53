/** etcd as its members see it: one history of revisions, which each of them has up to some point. */

import type { Compare } from '../../plugins/cluster/etcd/words.ts'
import type { Transaction } from '../../plugins/cluster/replicate/transaction.ts'

export interface Stored {
  value: string
  revision: number
}
export interface Told {
  key: string
  /** undefined: it was deleted. */
  value: string | undefined
  revision: number
}
export interface Answer {
  succeeded: boolean
  revision: number
}

export interface ModelEtcd {
  readonly revision: number
  /** Up to here nobody can be told any more what happened. */
  compacted: number
  carryOut(transaction: Pick<Transaction, 'compares' | 'ops'>): Answer
  /** What happened at a revision. */
  at(revision: number): readonly Told[]
  /** What came after is as if it had never been, and its revisions are given again. */
  forgetAfter(revision: number): void
  /** All keys as they were then. */
  state(revision: number): ReadonlyMap<string, Stored>
}

export function openModelEtcd(): ModelEtcd {
  const history: Told[][] = [[], []]
  const states: ReadonlyMap<string, Stored>[] = [new Map(), new Map()]
  const last = () => states.length - 1
  return {
    compacted: 0,
    get revision() {
      return last()
    },
    carryOut({ compares, ops }) {
      const before = states[last()] ?? new Map()
      if (!compares.every((compare) => holds(before, compare))) return { succeeded: false, revision: last() }
      const [keys, events, revision] = [new Map(before), [] as Told[], last() + 1]
      for (const op of ops) {
        if ('request_put' in op) {
          const [key, value] = [op.request_put.key.toString(), op.request_put.value.toString()]
          keys.set(key, { value, revision })
          events.push({ key, value, revision })
        } else {
          const { key: from, range_end } = op.request_delete_range
          for (const key of within(keys, from, range_end)) {
            keys.delete(key)
            events.push({ key, value: undefined, revision })
          }
        }
      }
      history.push(events)
      states.push(keys)
      return { succeeded: true, revision }
    },
    forgetAfter(revision) {
      for (const all of [history, states]) all.length = Math.min(all.length, revision + 1)
      this.compacted = Math.min(this.compacted, revision)
    },
    at: (revision) => history[revision] ?? [],
    state: (revision) => states[revision] ?? new Map(),
  }
}

/** Keys are ASCII, so text is in the order of bytes. */
function within(keys: ReadonlyMap<string, Stored>, from: Buffer, end: Buffer | undefined): string[] {
  const [first, after] = [from.toString(), end?.toString()]
  if (after === undefined) return keys.has(first) ? [first] : []
  return [...keys.keys()].filter((key) => key >= first && key < after).sort()
}

/** Those of `words.ts`; another one is none that a transaction has. */
function holds(keys: ReadonlyMap<string, Stored>, compare: Compare): boolean {
  const found = keys.get(compare.key.toString())
  if ('create_revision' in compare) {
    if (compare.result === 'EQUAL') return found === undefined
    if (compare.result === 'GREATER') return found !== undefined
  } else if (compare.result === 'EQUAL') return (found?.revision ?? 0) === compare.mod_revision
  else if (compare.result === 'LESS') {
    const { mod_revision } = compare
    return within(keys, compare.key, compare.range_end).every((key) => (keys.get(key)?.revision ?? 0) < mod_revision)
  }
  throw new TypeError(`the model has no comparison ${compare.target} ${compare.result}`)
}
