/** One transaction, and what became of it when etcd does not say. */
import { ApiError } from '../../../core/errors.ts'
import { type Etcd, EtcdError, isUncertain } from '../etcd/client.ts'
import { changeKey } from '../keys.ts'
import { unavailable } from '../membership.ts'
import type { ChangeRecord, Transaction } from './transaction.ts'

const TXN_MS = 2000
/** Of the question whether it was carried out: the pipeline waits. */
const ASK_MS = 1000

/**
 * The revision that it made, or that at which it was found outrun. Without a majority nobody is asked what became of it: no answer would
 * come, and everybody would wait for it. @throws ApiError 503 when it was not taken, or nobody knows
 */
export async function carryOut(
  etcd: Etcd,
  { compares, ops }: Pick<Transaction, 'compares' | 'ops'>,
  { node, rid }: Pick<ChangeRecord, 'node' | 'rid'>,
  writable: () => boolean,
): Promise<{ succeeded: boolean; revision: number }> {
  try {
    return await etcd.txn(compares, ops, TXN_MS)
  } catch (error) {
    if (!isUncertain(error)) throw refused(error)
    const revision = writable() ? await madeAt(etcd, node, rid).catch(() => undefined) : undefined
    if (revision !== undefined) return { succeeded: true, revision }
    throw unavailable(
      'no majority of the members has taken the change; it may come into force later all the same',
      error,
    )
  }
}

/** A node's transactions follow each other, so its last one tells. A late one is nobody's: the watch brings it. */
async function madeAt(etcd: Etcd, node: string, rid: string): Promise<number | undefined> {
  const found = await etcd.get(changeKey(node), { ms: ASK_MS })
  const record = found && (JSON.parse(found.value) as ChangeRecord)
  return record?.rid === rid ? found?.modRevision : undefined
}

function refused(error: unknown): unknown {
  if (!(error instanceof EtcdError)) return error
  if (/space exceeded/.test(error.message)) {
    return unavailable('the database of etcd is full; it is being compacted', error)
  }
  return new ApiError(503, 'NOT_AVAILABLE', 'cluster service not available: etcd refused the change', {}, error)
}
