/**
 * Makes conntrack forget what the forwards have changed under it: connections that a removed forward carried (D61), and
 * datagrams that flow past a new one because they began before it. A connection over TCP that a new forward would have
 * taken is left to end by itself.
 *
 * Work that is left when the agent dies is found in `nat_pending` at the next start.
 */
import { inArray } from 'drizzle-orm'
import type { AreaContext, Stop } from '../../core/area.ts'
import { startAfterwork } from '../../core/state/afterwork.ts'
import { system } from '../../core/state/events.ts'
import type { Connection } from '../../dataplane/connections.ts'
import { queries } from './queries.ts'
import { type PendingRow, pending } from './tables.ts'

const [TCP, UDP] = [6, 17]
/** Rows that one pass deals with. */
const PORTION = 1000

export const startEviction = (context: AreaContext): Stop =>
  startAfterwork(context, {
    next: () => queries(context.read).pending.all({ limit: PORTION }),
    carryOut: (rows) => pass(context, rows),
    failed: 'connections could not be ended',
  })

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
