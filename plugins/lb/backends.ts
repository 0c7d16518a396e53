/** Domain rules of backends: who joins, who leaves and drains (D76), and what the operator says of their health. */
import { eq } from 'drizzle-orm'
import type { Change, Db, EventDraft } from '../../core/area.ts'
import { alreadyExists, conflict, limitReached, notFound } from '../../core/errors.ts'
import { LB_PLACES, LB_SHARERS } from '../../dataplane/numbers.ts'
import { vipRef } from './desired.ts'
import { readAddress, readBackend, shown } from './input.ts'
import { queries } from './queries.ts'
import { findVip } from './rules.ts'
import type { BackendInput } from './schemas.ts'
import { type BackendRow, backends, type VipRow } from './tables.ts'
import { toBackend } from './view.ts'

/** How long a backend that was removed may go on serving what it has. */
export const DRAIN_MS = 300_000
/** And for so many characters of a name, which is as many as an id may have. */
const ID_LENGTH = 64

interface Named<Status extends string> {
  status: Status
  vip_id: string
  backend_id: string
}

const resource = (vip: string, id: string) => `/api/v1/lb/${vip}/backends/${id}`

/** What the joining of a backend needs to know of the node. */
export interface Neighbourhood {
  /** Most backends of a VIP. */
  max: number
  /** What this node uses an address for itself; undefined for nothing. */
  useOf(address: string): Promise<string | undefined>
}

/** @throws ApiError 400, 404 for an unknown VIP, 409 when id or address are taken or the limit is reached */
export async function addBackend(
  tx: Db,
  path: string,
  input: BackendInput,
  { max, useOf }: Neighbourhood,
): Promise<Change<Named<'added'>>> {
  readAddress(input.ip, 'ip')
  const vip = findVip(tx, path)
  const fields = readBackend(vip, input)
  if (queries(tx).live.get(fields)) throw alreadyExists(`backend ${fields.id} of VIP ${vip.id}`)
  const there = queries(tx).target.get(fields)
  if (there && there.state !== 'draining') {
    throw alreadyExists(`backend ${there.id} of VIP ${vip.id} with ${fields.ip}, port ${fields.port || 'any'}`)
  }
  const looped = queries(tx).vipOn.get({ address: fields.ip })
  if (looped)
    throw conflict('ADDRESS_IN_USE', `${fields.ip} is the address of VIP ${looped.id}, which can be no backend`)
  const use = await useOf(fields.ip)
  if (use !== undefined) {
    throw conflict('ADDRESS_IN_USE', `${fields.ip} is this node's own (${use}): a backend is another machine`)
  }
  requireShare(tx, vip, fields)
  if ((queries(tx).liveCountOf.get({ vip: vip.id })?.many ?? 0) >= max) throw limitReached('backends of a VIP', max)
  const handle = takeHandle(tx, vip, fields.id, there)
  const checked = vip.checkType !== ''
  const row = tx
    .insert(backends)
    // Whoever is checked must prove itself first; without a check there is nobody to say otherwise.
    .values({ ...fields, handle, state: checked ? 'down' : 'up', settling: checked ? 'new' : '' })
    .returning()
    .get()
  makeRoom(tx, vip.id)
  return {
    result: { status: 'added', vip_id: vip.id, backend_id: row.id },
    touch: [vipRef(vip.id)],
    events: [
      {
        type: 'backend.added',
        resource: resource(vip.id, row.id),
        data: { vip_id: vip.id, backend_id: row.id, backend: toBackend(row) },
      },
    ],
  }
}

/** By what a backend answers, the VIP is found that it answers for: among so many. */
function requireShare(tx: Db, { id, protocol, dsr }: VipRow, { ip, port }: Pick<BackendRow, 'ip' | 'port'>): void {
  if (dsr) return
  const by = queries(tx)
    .servedBy.all({ ip, port, protocol })
    .filter(({ vip }) => vip !== id)
  if (by.length < LB_SHARERS) return
  const names = by.map(({ vip }) => vip).join(', ')
  throw conflict(
    'LIMIT_REACHED',
    `${ip} with ${protocol} port ${port || 'any'} serves ${LB_SHARERS} VIPs already (${names}): give it another port`,
  )
}

/**
 * What the data plane shall know a new backend by. At the address and port of one that drains it is that one again, with
 * its connections; beside one that drains under the same id it is another.
 */
function takeHandle(tx: Db, vip: VipRow, id: string, drained: BackendRow | undefined): string {
  if (drained) {
    queries(tx).removeBackend.run({ number: drained.number })
    return drained.handle
  }
  const taken = new Set(
    queries(tx)
      .backendsOf.all({ vip: vip.id })
      .map(({ handle }) => handle),
  )
  let handle = id
  for (let next = 2; taken.has(handle); next++) handle = `${id.slice(0, ID_LENGTH - 1 - `${next}`.length)}~${next}`
  return handle
}

/** The data plane has LB_PLACES. However fast backends come and go, a place stays free for the next one: for it those go that have drained longest. */
function makeRoom(tx: Db, vip: string): void {
  const all = queries(tx).backendsOf.all({ vip })
  const drained = all.filter(({ state }) => state === 'draining').sort((a, b) => a.drainUntil - b.drainUntil)
  const excess = Math.max(0, all.length - LB_PLACES + 1)
  for (const { number } of drained.slice(0, excess)) queries(tx).removeBackend.run({ number })
}

/** From its answer on it gets no new connections; what it has may end in its own time. @throws ApiError 404 */
export function removeBackend(tx: Db, path: string, id: string, now: Date): Change<Named<'removed'>> {
  const row = findBackend(tx, path, id)
  tx.update(backends)
    .set({ state: 'draining', settling: '', drainUntil: now.getTime() + DRAIN_MS })
    .where(eq(backends.number, row.number))
    .run()
  makeRoom(tx, row.vip)
  const named = { vip_id: row.vip, backend_id: row.id }
  return {
    result: { status: 'removed', ...named },
    touch: [vipRef(row.vip)],
    events: [{ type: 'backend.removed', resource: resource(row.vip, row.id), data: named }],
  }
}

/** Holds until the next result of a check; for good where there is none. @throws ApiError 404 */
export function setHealth(
  tx: Db,
  path: string,
  id: string,
  healthy: boolean,
): Change<Named<'updated'> & { healthy: boolean }> {
  const row = findBackend(tx, path, id)
  const checked = findVip(tx, path).checkType !== ''
  tx.update(backends)
    .set({ state: healthy ? 'up' : 'down', settling: checked ? 'override' : '', revision: row.revision + 1 })
    .where(eq(backends.number, row.number))
    .run()
  return {
    result: { status: 'updated', vip_id: row.vip, backend_id: row.id, healthy },
    touch: [vipRef(row.vip)],
    events: transition(row, healthy),
  }
}

/** What a check has found out about a backend. */
export interface Verdict {
  number: number
  /** The backend's when the check began. */
  revision: number
  healthy: boolean
}

/** What has come to pass meanwhile wins: of a backend that left, or was overridden, a verdict says nothing. */
export function settle(tx: Db, verdicts: readonly Verdict[]): Change<void> {
  const change: Change<void> = { result: undefined, touch: [], events: [] }
  const touched = new Set<string>()
  for (const { number, revision, healthy } of verdicts) {
    const row = queries(tx).backend.get({ number })
    if (row === undefined || row.state === 'draining' || row.revision !== revision) continue
    tx.update(backends)
      .set({ state: healthy ? 'up' : 'down', settling: '' })
      .where(eq(backends.number, number))
      .run()
    change.events.push(...transition(row, healthy))
    touched.add(row.vip)
  }
  change.touch.push(...[...touched].map(vipRef))
  return change
}

function transition({ vip, id, state }: BackendRow, healthy: boolean): EventDraft[] {
  const [from, to] = [state === 'up' ? 'healthy' : 'unhealthy', healthy ? 'healthy' : 'unhealthy']
  if (from === to) return []
  const data = { vip_id: vip, backend_id: id, from, to }
  return [{ type: 'backend.state_changed', resource: resource(vip, id), data }]
}

/** Forgets backends that have drained, as far as they still do. */
export function endDrains(tx: Db, numbers: readonly number[]): Change<void> {
  const touched = new Set<string>()
  for (const number of numbers) {
    const row = queries(tx).backend.get({ number })
    if (row?.state !== 'draining') continue
    queries(tx).removeBackend.run({ number })
    touched.add(row.vip)
  }
  return { result: undefined, touch: [...touched].map(vipRef), events: [] }
}

/** One that is part of the API. @throws ApiError 404 */
function findBackend(db: Db, path: string, id: string): BackendRow {
  const vip = findVip(db, path)
  const row = queries(db).live.get({ vip: vip.id, id })
  if (row === undefined) throw notFound('backend', `${shown(id)} of VIP ${vip.id}`)
  return row
}
