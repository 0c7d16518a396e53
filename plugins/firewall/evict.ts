/**
 * Ends established connections that a new drop rule forbids (D72). A drop is enforced on them from its first moment, as one
 * that is `fresh` to the classifier or by nft's chain `firewall_established`; here conntrack is made to forget them, so that
 * what is established is not judged any more, and their replies end too. A connection that an accept rule of higher rank admits is left alone.
 *
 * Work that is left when the agent dies is found in `firewall_pending` at the next start.
 */
import type { AreaContext, Change, Db, Stop } from '../../core/area.ts'
import { inSlices } from '../../core/slices.ts'
import { startAfterwork } from '../../core/state/afterwork.ts'
import { system } from '../../core/state/events.ts'
import type { Connection, Ingress } from '../../dataplane/connections.ts'
import { shortfall } from './legacy.ts'
import { type Flow, flowOf, type Predicate, predicate } from './match.ts'
import { everyPending, everyRule, queries } from './queries.ts'
import { compareRanks, establishedRef, rankOf, ruleRef } from './refs.ts'
import { isScheduled, nextOpening } from './schedule.ts'
import type { Row } from './tables.ts'

/** Windows of schedules open at full seconds. */
const SCHEDULE_TICK_MS = 1000
/** Least time between two passes: a stream of new drops shares them. The drops themselves hold from the first moment. */
const INTERVAL_MS = 100
/** Drops of one pass. */
const AT_ONCE = 5000
const TCP = 6

export function startEviction(context: AreaContext): Stop {
  const stopWork = startAfterwork<Row>(context, {
    async next() {
      const drops: Row[] = []
      await inSlices(everyPending(context.read, AT_ONCE), (row) => void drops.push(row))
      return drops
    },
    carryOut: (drops) => evict(context, drops),
    failed: 'connections could not be ended',
    intervalMs: INTERVAL_MS,
  })
  const stopSchedules = watchSchedules(context)
  return async () => {
    stopSchedules()
    await stopWork()
  }
}

async function evict(context: AreaContext, drops: readonly Row[]): Promise<void> {
  const { plane, log, mutate } = context
  const forbidden = await select(context, drops, await plane.connections.list())
  // Without this a mid-stream segment from the far end would open the connection anew, the other way round.
  for (const family of [4, 6] as const) {
    await plane.addExpiring(
      `firewall_ended${family}`,
      forbidden.filter((it) => it.family === family && it.protocol === TCP).map(answerTuple),
    )
  }
  const ended = await plane.connections.end(forbidden)
  if (ended > 0) log.info({ rules: drops.length, connections: ended }, 'connections ended by new drop rules')
  await mutate(system('eviction'), (tx) => done(tx, drops))
}

async function done(tx: Db, drops: readonly Row[]): Promise<Change<void>> {
  const touch = [establishedRef]
  await inSlices(drops, ({ id }) => {
    queries(tx).removePending.run({ rule: id })
    touch.push(ruleRef(id))
  })
  return { result: undefined, touch, events: [] }
}

const answerTuple = ({ reply: { src, sport, dst, dport } }: Connection) => `${src} . ${sport} . ${dst} . ${dport}`

/** The connections that some of `drops` matches and no accept of higher rank than that one does. */
async function select(context: AreaContext, drops: readonly Row[], all: readonly Connection[]): Promise<Connection[]> {
  const { read, now, plane } = context
  const at = now()
  const judges = byRank(
    drops.filter((row) => !shortfall(row)?.leftOut),
    at,
  )
  const needsIngress = drops.some((row) => row.interface !== '' || row.mac !== '')
  const ingress = new Map<string, Ingress>()
  const located = async (connection: Connection): Promise<Flow> => {
    const known = ingress.get(connection.src) ?? (await plane.connections.locate(connection.src))
    ingress.set(connection.src, known)
    return { ...flowOf(connection), ...known }
  }
  let accepts: Judge[] | undefined
  const chosen: Connection[] = []
  await inSlices(all, async (connection) => {
    const flow = needsIngress ? await located(connection) : flowOf(connection)
    const drop = judges.find(({ matches }) => matches(flow))
    if (drop === undefined) return
    const full = await located(connection)
    // Where device or MAC is not known, an accept that asks for it is given the benefit of the doubt.
    accepts ??= await acceptsBefore(read, judges.at(-1)?.rank ?? drop.rank, at)
    const admitted = accepts.some(({ rank, matches }) => compareRanks(rank, drop.rank) < 0 && matches(full))
    if (!admitted) chosen.push(connection)
  })
  return chosen
}

/** The accepts that come before the last of the drops, in no order: there may be too many to sort in one go. */
async function acceptsBefore(read: Db, last: readonly number[], at: Date): Promise<Judge[]> {
  const accepts: Judge[] = []
  await inSlices(everyRule(read), (row) => {
    const rank = rankOf(row)
    if (row.action !== 'accept' || compareRanks(rank, last) > 0 || shortfall(row)?.leftOut) return
    accepts.push({ rank, matches: predicate(row, at, true) })
  })
  return accepts
}

interface Judge {
  rank: readonly number[]
  matches: Predicate
}

function byRank(rows: readonly Row[], at: Date): Judge[] {
  return rows
    .map((row) => ({ rank: rankOf(row), matches: predicate(row, at) }))
    .sort((a, b) => compareRanks(a.rank, b.rank))
}

/** The kernel keeps schedules by itself; only the connections that stand when a scheduled drop sets in need the agent. */
function watchSchedules({ read, now, log, mutate }: AreaContext): () => void {
  let last = now()
  const timer = setInterval(() => {
    const from = last
    last = now()
    const opened = queries(read)
      .scheduled.all()
      .filter((row) => row.action !== 'accept' && isScheduled(row))
      .filter((row) => (nextOpening(row, from)?.getTime() ?? Number.POSITIVE_INFINITY) <= last.getTime())
    if (opened.length === 0) return
    mutate(system('schedule'), (tx) => {
      for (const { id } of opened) queries(tx).addPending.run({ rule: id })
      return { result: undefined, touch: [...opened.map(({ id }) => ruleRef(id)), establishedRef], events: [] }
    }).catch((error: unknown) => log.error({ err: error }, 'a scheduled drop could not end connections'))
  }, SCHEDULE_TICK_MS)
  timer.unref()
  return () => clearInterval(timer)
}
