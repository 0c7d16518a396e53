/**
 * Ends established connections that a new drop rule forbids (D72): conntrack forgets them, and their next packet meets the
 * rules like a first one. A connection that an accept rule of higher rank admits is left alone.
 */
import type { AreaContext, Stop } from '../../core/area.ts'
import { everyRule, queries, rankOf } from './desired.ts'
import { shortfall } from './legacy.ts'
import { PROTOCOLS, type Predicate, predicate } from './match.ts'
import { isScheduled, nextOpening } from './schedule.ts'
import type { Row } from './tables.ts'

/** Windows open at full seconds at the earliest, daily ones at full minutes. */
const SCHEDULE_TICK_MS = 5000

export async function evict({ read, plane, now, log }: AreaContext, data: unknown): Promise<void> {
  const row = queries(read).byId.get({ id: (data as { rule: number }).rule })
  // Deleted or replaced meanwhile: whoever did that has taken over.
  if (row === undefined || row.action === 'accept' || shortfall(row)?.left_out) return
  const forbidden = judge(row, () => everyRule(read), now())
  const ended = await plane.evict(forbidden, {
    ingress: row.interface !== '' || row.mac !== '',
    ...(row.protocol && { protocol: PROTOCOLS[row.protocol] }),
    ...(row.sourceIp && { src: row.sourceIp }),
    ...(row.destIp && { dst: row.destIp }),
  })
  if (ended > 0) log.info({ rule: row.id, connections: ended }, 'connections ended by a new drop rule')
}

/** A connection is forbidden when the rule matches it and no accept of higher rank does. */
function judge(row: Row, all: () => Iterable<Row>, at: Date): Predicate {
  const drops = predicate(row, at)
  let accepts: Predicate[] | undefined
  return (connection) => {
    if (!drops(connection)) return false
    accepts ??= [...all()].filter((other) => admitsBefore(other, row)).map((other) => predicate(other, at))
    return !accepts.some((accept) => accept(connection))
  }
}

function admitsBefore(other: Row, row: Row): boolean {
  if (other.action !== 'accept' || shortfall(other)?.left_out) return false
  const [a, b] = [rankOf(other), rankOf(row)]
  const at = a.findIndex((value, index) => value !== b[index])
  return at >= 0 && (a[at] ?? 0) < (b[at] ?? 0)
}

/**
 * Ends forbidden connections at the moment a scheduled drop comes into force. The rule itself is kept by the kernel; only
 * the connections that stand need the agent.
 */
export function watchSchedules(context: AreaContext): Stop {
  const { read, now, log } = context
  let last = now()
  const timer = setInterval(() => {
    const from = last
    last = now()
    for (const row of everyRule(read)) {
      const opening = row.action !== 'accept' && isScheduled(row) ? nextOpening(row, from) : undefined
      if (opening === undefined || opening > last) continue
      evict(context, { rule: row.id }).catch((error: unknown) =>
        log.error({ err: error, rule: row.id }, 'eviction failed'),
      )
    }
  }, SCHEDULE_TICK_MS)
  timer.unref()
  return () => clearInterval(timer)
}
