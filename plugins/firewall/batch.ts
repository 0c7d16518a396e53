/** `POST /rules/batch`: every valid rule in one transaction and one kernel transaction, the others told why not (D65). */

import type { Change, Db, Member } from '../../core/area.ts'
import { ApiError, badRequest } from '../../core/errors.ts'
import { inSlices } from '../../core/slices.ts'
import type { Limit } from './limit.ts'
import { inserted, insertOne, toRule } from './rules.ts'
import type { BatchOutcome, BatchResult, RuleInput } from './schemas.ts'
import type { Row } from './tables.ts'

/** Says what is wrong with an item, or nothing when it is a RuleInput. */
export type ItemCheck = (item: unknown) => string | undefined

export interface BatchOptions {
  atomic: boolean
  limit: Limit
  members: readonly Member[]
  check: ItemCheck
}

/** An atomic batch that is refused: 400 with the same results. */
export class BatchRefusal extends ApiError {
  readonly outcome: BatchOutcome

  constructor(outcome: BatchOutcome) {
    super(400, 'BATCH_REFUSED', 'batch refused: nothing was created')
    this.outcome = outcome
  }
}

export async function createBatch(
  tx: Db,
  items: readonly unknown[],
  options: BatchOptions,
): Promise<Change<BatchOutcome>> {
  const results: BatchResult[] = []
  const rows: Row[] = []
  await inSlices(items.entries(), ([index, item]) => {
    try {
      const row = insertItem(tx, item, options)
      rows.push(row)
      results.push({ index, status: 'created', rule: toRule(row) })
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      results.push({ index, status: 'failed', code: error.status, error: error.message })
    }
  })
  const failed = items.length - rows.length
  if (options.atomic && failed > 0) throw new BatchRefusal(summary(results.map(withdrawn), 0))
  return inserted(summary(results, rows.length), rows)
}

function insertItem(tx: Db, item: unknown, { check, limit, members }: BatchOptions): Row {
  const wrong = check(item)
  if (wrong !== undefined) throw badRequest(wrong)
  // `check` has compared it with the schema of RuleInput.
  return insertOne(tx, item as RuleInput, limit, members)
}

function summary(results: BatchResult[], created: number): BatchOutcome {
  const failed = results.length - created
  const status = failed === 0 ? 'completed' : created === 0 ? 'failed' : 'partial'
  return { status, created, failed, results }
}

function withdrawn({ index, status, code, error }: BatchResult): BatchResult {
  if (status === 'failed') return { index, status, code: code ?? 400, error: error ?? '' }
  return { index, status: 'failed', code: 400, error: 'not created: another rule of the atomic batch was refused' }
}
