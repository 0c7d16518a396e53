/** Domain rules of the gateway: who has the VIP from now on. Knows neither Fastify nor the kernel. */
import type { Change, Db, EventDraft } from '../../core/area.ts'
import { conflict, notAvailable } from '../../core/errors.ts'
import { VIP_REF } from './desired.ts'
import { queries } from './queries.ts'
import { type Circumstances, placeOf, settled } from './role.ts'
import { type RoleRow, role } from './tables.ts'

/** What only the node can tell when the VIP is to be taken back. */
export interface Outlook {
  /** This node is the one that shall have the VIP when it can (`gateway_preferred`). */
  preferred: boolean
  /** What the node uses addresses of the VIP for already, in words; '' where there is nothing in the way. */
  taken: string
  /** Why the VIP, although the node has it, is not in force; '' where it is. */
  waiting: string
}

/** Brings the row to what the circumstances make of it. They alone, so the kernel holds it already. */
export function settle(tx: Db, now: Circumstances): Change<void> {
  const before = queries(tx).role.get()
  const after = settled(before, now)
  if (after) store(tx, after)
  else tx.delete(role).run()
  return { result: undefined, touch: [], events: told(before, after, now) }
}

/** Whether `settle` has something to do. */
export function unsettled(db: Db, now: Circumstances): boolean {
  const before = queries(db).role.get()
  return JSON.stringify(before) !== JSON.stringify(settled(before, now))
}

/** `taken`: what somebody else on this node has put a part of the VIP to, which then cannot be yielded; '' for nothing. */
export function failover(tx: Db, now: Circumstances, taken: string): Change<{ status: 'failover_triggered' }> {
  const before = settledOf(tx, now)
  if (taken && before.state === 'active') throw conflict('ADDRESS_IN_USE', taken)
  const after: RoleRow = { ...before, state: 'standby', ordered: true, boot: '' }
  store(tx, after)
  return { result: { status: 'failover_triggered' }, touch: [VIP_REF], events: told(before, after, now) }
}

export function failback(
  tx: Db,
  now: Circumstances,
  { preferred, taken, waiting }: Outlook,
): Change<{ status: 'failback_triggered' }> {
  const before = settledOf(tx, now)
  const result = { status: 'failback_triggered' } as const
  if (placeOf(before, now) === '') {
    throw conflict('NO_INTERFACE', 'no interface for the VIP: the node has no uplink, name one in gateway_interface')
  }
  if (before.state === 'active') {
    if (waiting) throw conflict('VIP_WAITING', `this node has the VIP, but it is not in force: ${waiting}`)
    return { result, touch: [], events: [] }
  }
  if (now.peer !== '' && !preferred) {
    throw conflict(
      'NOT_PREFERRED',
      'this node is not the preferred owner of the VIP: set gateway_preferred to on here, or call failback on the peer',
    )
  }
  if (taken) throw conflict('ADDRESS_IN_USE', taken)
  const after: RoleRow = { ...before, state: 'active', ordered: false, boot: now.boot }
  store(tx, after)
  return { result, touch: [VIP_REF], events: told(before, after, now) }
}

/** @throws ApiError 503 where no VIP is configured (D85) */
function settledOf(db: Db, now: Circumstances): RoleRow {
  const row = settled(queries(db).role.get(), now)
  if (row === undefined) throw notAvailable('gateway')
  return row
}

function store(tx: Db, row: RoleRow): void {
  tx.insert(role).values(row).onConflictDoUpdate({ target: role.id, set: row }).run()
}

/** Without a VIP a node is nobody's gateway, which is standby. */
function told(before: RoleRow | undefined, after: RoleRow | undefined, { vips }: Circumstances): EventDraft[] {
  const [from, to] = [before?.state ?? 'standby', after?.state ?? 'standby']
  if (from === to) return []
  const data = { from, to, vip: vips.map(({ cidr }) => cidr).join(',') }
  return [{ type: 'gateway.state_changed', resource: '/api/v1/gateway/status', data }]
}
