/**
 * Makes conntrack forget what the forwards have changed under it: connections that a removed forward carried (D61), and
 * datagrams that flow past a new one because they began before it. A connection over TCP that a new forward would have
 * taken is left to end by itself.
 *
 * Work that is left when the agent dies is found in `nat_pending` at the next start.
 */
import { inArray } from 'drizzle-orm'
import type { AreaContext, Stop } from '../../core/area.ts'
import { system } from '../../core/state/events.ts'
import type { Connection } from '../../dataplane/connections.ts'
import { queries } from './queries.ts'
import { type PendingRow, pending } from './tables.ts'

const [TCP, UDP] = [6, 17]
/** Rows that one pass deals with. */
const PORTION = 1000

export function startEviction(context: AreaContext): Stop {
  const { log, read } = context
  let running: Promise<void> | undefined
  let stopped = false

  const work = async () => {
    // The first turn goes to whoever called, so `running` is set before the loop can end.
    await Promise.resolve()
    try {
      for (let rows = next(); rows.length > 0 && !stopped; rows = next()) await pass(context, rows)
    } catch (error) {
      log.warn({ err: error }, 'connections could not be ended; this is tried again after the next change')
    }
    running = undefined
  }
  const next = () => queries(read).pending.all({ limit: PORTION })
  const start = () => {
    running ??= work()
  }
  const stopListening = context.onCommit(start)
  start()
  return async () => {
    stopped = true
    stopListening()
    await running
  }
}

async function pass({ plane, log, mutate }: AreaContext, rows: readonly PendingRow[]): Promise<void> {
  const ended = await plane.connections.end(outdated(rows, await plane.connections.list({ own: true })))
  if (ended > 0) log.info({ connections: ended }, 'connections ended by changed port forwards')
  await mutate(system('eviction'), (tx) => {
    const ids = rows.map(({ id }) => id)
    tx.delete(pending).where(inArray(pending.id, ids)).run()
    return { result: undefined, touch: [], events: [] }
  })
}

/** Those of `all` that some row speaks of. */
export function outdated(rows: readonly PendingRow[], all: readonly Connection[]): Connection[] {
  const byDestination = new Map<string, PendingRow[]>()
  for (const row of rows) {
    const key = `${row.destIp} ${row.destPort}`
    byDestination.set(key, [...(byDestination.get(key) ?? []), row])
  }
  return all.filter((connection) =>
    byDestination.get(`${connection.dst} ${connection.dport}`)?.some((row) => concerns(row, connection)),
  )
}

function concerns({ targetIp, targetPort }: PendingRow, { protocol, dst, dport, reply }: Connection): boolean {
  if (targetIp === '') return protocol === UDP && reply.src === dst && reply.sport === dport
  return (protocol === TCP || protocol === UDP) && reply.src === targetIp && reply.sport === targetPort
}
