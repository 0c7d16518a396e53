/**
 * Where nft balances, conntrack keeps a connection where it began. What must not go on is noted with the change that ends
 * it and ended after its commit: connections of a VIP or a backend that went, and datagrams to one that is unhealthy.
 * What is left when the agent dies is found in `lb_pending` at the next start.
 */
import { inArray } from 'drizzle-orm'
import type { AreaContext, Change, Db, Rule, Stop } from '../../core/area.ts'
import { startAfterwork } from '../../core/state/afterwork.ts'
import { system } from '../../core/state/events.ts'
import type { Connection } from '../../dataplane/connections.ts'
import { inSlices } from '../../dataplane/slices.ts'
import { type Claimed, type Front, isServed, protocolOf, type Target } from './flows.ts'
import { queries } from './queries.ts'
import { type PendingRow, pending } from './tables.ts'

/** Rows that one pass deals with. */
const PORTION = 1000

/** What a VIP serves, by `<address> <port> <protocol> <backend>`; datagrams only by who is well, or drains. */
function served(db: Db, ref: string): Map<string, Front & { target: Target }> {
  const vip = queries(db).vip.get({ id: ref.slice(ref.indexOf('/') + 1) })
  const found = new Map<string, Front & { target: Target }>()
  if (vip === undefined) return found
  const { address, port, protocol } = vip
  for (const { ip, port: backendPort, state } of queries(db).backendsOf.all({ vip: vip.id })) {
    if (protocol === 'udp' && state === 'down') continue
    const target = { ip, port: backendPort }
    found.set(`${address} ${port} ${protocol} ${ip} ${backendPort}`, { address, port, protocol, target })
  }
  return found
}

/** The same rule, which also notes what it ends where nft balances. `read` sees what was before (core/state/mutate.ts). */
export function noting<T>({ plane, read }: Pick<AreaContext, 'plane' | 'read'>, rule: Rule<T>): Rule<T> {
  if (plane.balancer.accelerated) return rule
  return async (tx): Promise<Change<T>> => {
    const change = await rule(tx)
    for (const { id } of change.touch.filter((ref) => ref.id.startsWith('vip/'))) {
      const after = served(tx, id)
      for (const [key, { target, ...front }] of served(read, id)) {
        if (after.has(key)) continue
        tx.insert(pending)
          .values({ ...front, backendIp: target.ip, backendPort: target.port })
          .run()
      }
    }
    return change
  }
}

export const startEviction = (context: AreaContext): Stop =>
  startAfterwork(context, {
    next: () => queries(context.read).pending.all({ limit: PORTION }),
    carryOut: (rows) => pass(context, rows),
    failed: 'connections could not be ended',
  })

async function pass({ plane, read, log, mutate }: AreaContext, rows: readonly PendingRow[]): Promise<void> {
  // While the programs balance, conntrack knows nothing of it.
  const all = plane.balancer.accelerated ? [] : await plane.connections.list({ own: true })
  const ended = await plane.connections.end(await outdated(read, rows, all))
  if (ended > 0) log.info({ connections: ended }, 'connections ended whose backend serves them no longer')
  await mutate(system('eviction'), (tx) => {
    const ids = rows.map(({ id }) => id)
    tx.delete(pending).where(inArray(pending.id, ids)).run()
    return { result: undefined, touch: [], events: [] }
  })
}

/** Those of `all` that some row speaks of, and that nobody serves by now. */
export async function outdated(db: Db, rows: readonly PendingRow[], all: readonly Connection[]): Promise<Connection[]> {
  const claimed = claimedBy(db)
  const byEnds = new Map<string, PendingRow[]>()
  await inSlices(rows, (row) => {
    const again = queries(db).vipAt.get(row)
    const there = again && served(db, `vip/${again.id}`)
    const { address, port, protocol, backendIp, backendPort } = row
    if (there?.has(`${address} ${port} ${protocol} ${backendIp} ${backendPort}`)) return
    const key = `${address} ${backendIp}`
    const same = byEnds.get(key)
    if (same) same.push(row)
    else byEnds.set(key, [row])
  })
  const found: Connection[] = []
  await inSlices(all, (connection) => {
    const speaking = byEnds.get(`${connection.dst} ${connection.reply.src}`)
    const target = ({ backendIp, backendPort }: PendingRow) => ({ ip: backendIp, port: backendPort })
    if (speaking?.some((row) => isServed(row, target(row), claimed, connection))) found.push(connection)
  })
  return found
}

/** Whether there is a VIP for a connection's very port, as the store is now. */
export function claimedBy(db: Db): Claimed {
  const fronts = new Set(
    queries(db)
      .fronts.all()
      .map(({ address, port, protocol }) => `${address} ${port} ${protocol}`),
  )
  return (connection) => fronts.has(`${connection.dst} ${connection.dport} ${protocolOf(connection)}`)
}
