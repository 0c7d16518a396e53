/**
 * One transaction, and what became of it when etcd does not say. Every transaction of a node compares that the node's `/change/` key is as the
 * one before left it, and puts it. So whoever puts that key first, instead of a transaction that has not arrived yet, shuts it out for good.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { ApiError } from '../../../core/errors.ts'
import { type Etcd, EtcdError, isUncertain } from '../etcd/client.ts'
import { put, unchanged } from '../etcd/words.ts'
import { changeKey } from '../keys.ts'
import { unavailable } from '../membership.ts'
import { fieldsIn } from '../reading.ts'
import type { ChangeRecord, Transaction } from './transaction.ts'

const TXN_MS = 2000
/** Of each of the two questions whether it was carried out: the pipeline waits. */
const ASK_MS = 1000
const AGAIN_MS = 250

/** Of which node, and the revision of its `/change/` key as its store has it. */
export interface Fence {
  node: string
  changed: number
}

/** `never`: it was not made and never will be. `outrun`: neither, and at `revision` something else than expected is there. */
export type Outcome = { is: 'made' | 'outrun'; revision: number } | { is: 'never' }

/** Pure. `found` is the node's `/change/` key, which is asked for where the fence did not succeed. */
export function outcomeOf(
  rid: string,
  fence: { succeeded: boolean; revision: number },
  found?: { value: string; modRevision: number },
): Outcome {
  if (fence.succeeded) return { is: 'never' }
  if (found && fieldsIn(found.value)?.rid === rid) return { is: 'made', revision: found.modRevision }
  return { is: 'outrun', revision: fence.revision }
}

/** What shuts out a transaction that compares the same. */
export const fenceOf = ({ node, changed }: Fence): Pick<Transaction, 'compares' | 'ops'> => ({
  compares: [unchanged(changeKey(node), changed)],
  ops: [put(changeKey(node), JSON.stringify({ node }))],
})

function raise(etcd: Etcd, fence: Fence): Promise<{ succeeded: boolean; revision: number }> {
  const { compares, ops } = fenceOf(fence)
  return etcd.txn(compares, ops, ASK_MS)
}

/**
 * The revision that it made, or that at which it was found outrun. Without a majority nobody is asked what became of it: no answer would
 * come, and everybody would wait for it; then `doubt` is told. @throws ApiError 503 when it was not made, or nobody knows
 */
export async function carryOut(
  etcd: Etcd,
  { compares, ops }: Pick<Transaction, 'compares' | 'ops'>,
  { rid, ...fence }: Fence & Pick<ChangeRecord, 'rid'>,
  { writable, doubt }: { writable(): boolean; doubt(): void },
): Promise<{ succeeded: boolean; revision: number }> {
  try {
    return await etcd.txn(compares, ops, TXN_MS)
  } catch (error) {
    if (!isUncertain(error)) throw refused(error)
    const outcome = writable() ? await ask(etcd, rid, fence).catch(() => undefined) : undefined
    if (outcome === undefined) {
      doubt()
      throw unavailable(UNKNOWN, error)
    }
    if (outcome.is === 'never') throw unavailable(NOT_MADE, error)
    return { succeeded: outcome.is === 'made', revision: outcome.revision }
  }
}

const NOT_MADE = 'no majority of the members took the change in time; it was not made and never will be: try again'
const UNKNOWN =
  'no majority of the members can be reached to say whether the change was made; look once one can be, and make it again if it was not'

async function ask(etcd: Etcd, rid: string, fence: Fence): Promise<Outcome> {
  const raised = await raise(etcd, fence)
  // Nobody else puts it, and the own etcd has what it has just answered about.
  const found = raised.succeeded ? undefined : await etcd.get(changeKey(fence.node), { local: true, ms: ASK_MS })
  return outcomeOf(rid, raised, found)
}

/**
 * Ends a doubt as soon as a majority can be reached again: from then on the change whose outcome nobody knew is in force, or never will be.
 * `changed` is what the store has by now: when it is another, the change after that one has ended the doubt.
 */
export async function endDoubt(
  etcd: Etcd,
  fence: Fence,
  { writable, changed }: { writable(): boolean; changed(): number },
  stopped: AbortSignal,
): Promise<void> {
  while (!stopped.aborted && changed() === fence.changed) {
    const raised = writable() && (await raise(etcd, fence).catch(() => undefined))
    if (raised) return
    await delay(AGAIN_MS, undefined, { signal: stopped }).catch(() => {})
  }
}

function refused(error: unknown): unknown {
  if (!(error instanceof EtcdError)) return error
  if (/space exceeded/.test(error.message)) {
    return unavailable('the database of etcd is full; it is being compacted', error)
  }
  return new ApiError(503, 'NOT_AVAILABLE', 'cluster service not available: etcd refused the change', {}, error)
}
