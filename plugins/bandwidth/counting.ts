/**
 * Follows what the kernel counts: tells when a quota comes near its limit, reaches it, or begins anew, and writes down now
 * and then what was used, for the time after a reboot. Nothing that holds traffic back depends on it.
 */
import type { AreaContext, Change, Db, EventDraft, Stop } from '../../core/area.ts'
import { system } from '../../core/state/events.ts'
import { PAGE } from '../../core/transport/list.ts'
import { queries } from './queries.ts'
import { type Counting, statusOf, toQuota, usedOf } from './quotas.ts'
import type { QuotaRow } from './tables.ts'

/** How often what was used is written down: so much of it may be lost by a reboot without notice. */
const EVERY_MS = 10_000
/** News of the kernel that come together are told together. */
const GATHERED_MS = 100

interface Step {
  used: number
  month: number
  event?: EventDraft
}

export function startCounting(context: AreaContext): Stop {
  const { plane, log } = context
  let busy: Promise<void> | undefined
  let soon: NodeJS.Timeout | undefined
  const pass = () => {
    busy ??= count(context)
      .catch((error: unknown) => log.warn({ err: error }, 'what quotas have used was not written down; tried again'))
      .finally(() => {
        busy = undefined
      })
    return busy
  }
  const stopListening = plane.shaping.onQuota(() => {
    soon ??= setTimeout(() => {
      soon = undefined
      // One that is under way may have read before the news.
      void Promise.resolve(busy).then(pass)
    }, GATHERED_MS)
  })
  const timer = setInterval(() => void pass(), EVERY_MS)
  timer.unref()
  void pass()
  return async () => {
    stopListening()
    clearInterval(timer)
    clearTimeout(soon)
    await busy
    await pass()
  }
}

/** One pass, page by page: sets the clock of the programs, and stores and tells what is another than before. */
export async function count({ plane, read, now, mutate }: AreaContext): Promise<void> {
  const counting: Counting = { usageOf: (quota) => plane.shaping.usage(quota), now: now() }
  plane.shaping.setMonth(counting.now)
  for (let after = 0; ; ) {
    const rows = queries(read).quotaPage.all({ after })
    const others = rows.filter((row) => stepOf(row, counting))
    if (others.length > 0) await mutate(system('quotas'), (tx) => stored(tx, others, counting))
    else await new Promise(setImmediate)
    const last = rows.at(-1)
    if (last === undefined || rows.length < PAGE) return
    after = last.seq
  }
}

/** Rows may have changed since they were read. */
function stored(tx: Db, rows: readonly QuotaRow[], counting: Counting): Change<undefined> {
  const events: EventDraft[] = []
  for (const { seq } of rows) {
    const row = queries(tx).quotaNumbered.get({ seq })
    const step = row && stepOf(row, counting)
    if (!step) continue
    const { used, month, event } = step
    queries(tx).countUsed.run({ seq, used, month, status: statusOf(row.limit, used) })
    if (event) events.push(event)
  }
  return { result: undefined, touch: [], events }
}

/** Undefined when nothing is to be written down. */
export function stepOf(row: QuotaRow, counting: Counting): Step | undefined {
  const { used, month } = usedOf(row, counting)
  if (used === row.used && month === row.month) return undefined
  const to = statusOf(row.limit, used)
  // Every month begins with ok, also where nobody saw it.
  const from = month === row.month || to === 'ok' ? row.status : 'ok'
  if (from === to) return { used, month }
  const data = { ...toQuota(row, counting), from, to }
  return { used, month, event: { type: 'quota.state_changed', resource: `/api/v1/bandwidth/quotas/${row.mac}`, data } }
}
