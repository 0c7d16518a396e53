/** Domain rules of leases (D52): what the responder tells, what time and operators end. */
import type { Change, Db, EventDraft, Ref } from '../../core/area.ts'
import { conflict, lacks } from '../../core/errors.ts'
import { inSlices } from '../../core/slices.ts'
import { parseMac } from '../../dataplane/nft/text.ts'
import type { LeaseEvent } from '../../dataplane/responder/protocol.ts'
import { boundEndpoint, networkCalled, networkId } from '../networks/offers.ts'
import { addressNumber, addressText } from './address.ts'
import { bindingRef, formerRef } from './desired.ts'
import { leasePage, queries } from './queries.ts'
import type { Lease, LeaseState, ReleaseInput } from './schemas.ts'
import type { LeaseRow } from './tables.ts'

/** Seconds for which a lease that ended is shown. */
export const KEPT = 7 * 86_400

/** Collects what a rule changed. */
interface Draft {
  touch: Ref[]
  events: EventDraft[]
}

const seconds = (now: Date): number => Math.floor(now.getTime() / 1000)

export const stateOf = ({ state, expiresAt }: LeaseRow, now: Date): LeaseState =>
  state === 'active' && expiresAt <= seconds(now) ? 'expired' : state

export const toLease = (row: LeaseRow, now: Date): Lease => ({
  ...{ id: row.id, mac: row.mac, ip: addressText(row.address), state: stateOf(row, now) },
  ...{ hostname: row.hostname, expires_at: row.expiresAt, network_id: row.networkId },
})

/** Writes what the responder told; of what it tells twice, or too late, the rows are the judge. */
export async function hear(tx: Db, news: readonly LeaseEvent[], now: Date): Promise<Change<void>> {
  const draft: Draft = { touch: [], events: [] }
  await inSlices(news, (event) => hearOne(tx, event, now, draft))
  return { result: undefined, ...draft }
}

/** Ends what has run out, and forgets what ended a week ago; at most a page of each. */
export function tidy(tx: Db, now: Date): Change<void> {
  const draft: Draft = { touch: [], events: [] }
  for (const row of queries(tx).due.all({ now: seconds(now) })) end(tx, row, 'expired', row.expiresAt, now, draft)
  for (const row of queries(tx).heldTooLong.all({ now: seconds(now) })) {
    queries(tx).set.run({ ...row, held: 0 })
    draft.touch.push(formerRef(row))
  }
  for (const row of queries(tx).over.all({ before: seconds(now) - KEPT })) {
    queries(tx).remove.run({ id: row.id })
    if (row.releasedAt > 0) draft.touch.push(bindingRef(row))
    if (row.held > 0) draft.touch.push(formerRef(row))
    draft.events.push({ type: 'lease.deleted', resource: resource(row), data: { id: row.id } })
  }
  return { result: undefined, ...draft }
}

/** True when there is something to tidy. */
export const isUntidy = (db: Db, now: Date): boolean =>
  queries(db).due.all({ now: seconds(now) }).length > 0 ||
  queries(db).heldTooLong.all({ now: seconds(now) }).length > 0 ||
  queries(db).over.all({ before: seconds(now) - KEPT }).length > 0

export const anyActive = (db: Db, now: Date): boolean => leasePage(db, 'active', seconds(now), undefined).length > 0

/** Leases whose binding went away while nobody listened. */
export async function endUnbound(tx: Db, now: Date): Promise<Change<void>> {
  const draft: Draft = { touch: [], events: [] }
  await inSlices(everyActive(tx, now), (row) => {
    if (!isBound(tx, row)) end(tx, row, 'revoked', seconds(now), now, draft)
  })
  return { result: undefined, ...draft }
}

/**
 * Ends the lease of an address or a MAC; who holds it is refused when it renews, and may ask anew.
 * @throws ApiError 404 when there is no active one, 409 when there are several
 */
export function release(
  tx: Db,
  { which, network }: ReleaseInput,
  now: Date,
): Change<{ status: 'released'; lease: Lease }> {
  const place = { now: seconds(now), address: addressNumber(which) ?? -1, mac: parseMac(which) ?? '' }
  const inNetwork = network ? networkCalled(tx, network).id : undefined
  const found = [...queries(tx).activeOfAddress.all(place), ...queries(tx).activeOfMac.all(place)].filter(
    ({ networkId }) => inNetwork === undefined || networkId === inNetwork,
  )
  const [row, ...others] = found
  if (row === undefined) throw lacks(which.replace(/[^\x21-\x7e]/g, '?'), 'active lease')
  if (others.length > 0) {
    const networks = found.map(({ networkId }) => networkId).join(', ')
    throw conflict('AMBIGUOUS', `${which} has leases in several networks (${networks}); name one of them`)
  }
  const draft: Draft = { touch: [bindingRef(row)], events: [] }
  const at = now.getTime()
  const ended = end(tx, { ...row, releasedAt: at, heardAt: at }, 'revoked', seconds(now), now, draft)
  return { result: { status: 'released', lease: toLease(ended, now) }, ...draft }
}

function hearOne(tx: Db, event: LeaseEvent, now: Date, draft: Draft): void {
  const { net, mac, hostname, expiresAt, at } = event
  const address = addressNumber(event.address)
  if (address === undefined) return
  const row = queries(tx).lease.get({ net, address, mac })
  if (row !== undefined && at <= row.heardAt) return
  const bound = isBound(tx, { net, address, mac })
  if (event.state === 'revoked' || !bound) {
    // Of a change that was taken back.
    if (event.unbound && bound) return
    if (row === undefined || stateOf(row, now) !== 'active') return
    const after = end(tx, { ...row, heardAt: at }, 'revoked', seconds(now), now, draft)
    // Its client has given it back by itself.
    if (bound) queries(tx).set.run({ ...after, held: 0 })
    return
  }
  for (const other of queries(tx).othersActive.all({ net, address, mac, now: seconds(now) })) {
    end(tx, other, 'revoked', seconds(now), now, draft)
  }
  const fresh = {
    net,
    address,
    mac,
    hostname,
    state: 'active',
    expiresAt,
    endedAt: 0,
    releasedAt: 0,
    held: 0,
    heardAt: at,
  } as const
  if (row === undefined) {
    const id = networkId(tx, net)
    if (id === undefined) return
    const values = { ...fresh, networkId: id }
    const added = { ...values, id: queries(tx).add.get(values).id }
    draft.events.push({ type: 'lease.created', resource: resource(added), data: toLease(added, now) })
    return
  }
  const after: LeaseRow = { ...row, ...fresh }
  queries(tx).set.run(after)
  if (row.releasedAt > 0) draft.touch.push(bindingRef(row))
  if (row.held > 0) draft.touch.push(formerRef(row))
  const from = stateOf(row, now)
  if (from !== 'active') draft.events.push(changed(after, from, now))
  else if (row.hostname !== hostname) {
    draft.events.push({ type: 'lease.updated', resource: resource(after), data: toLease(after, now) })
  }
}

function end(tx: Db, row: LeaseRow, to: 'expired' | 'revoked', endedAt: number, now: Date, draft: Draft): LeaseRow {
  const after: LeaseRow = { ...row, state: to, endedAt, held: to === 'revoked' ? 1 : 0 }
  queries(tx).set.run(after)
  draft.touch.push(formerRef(row))
  draft.events.push(changed(after, 'active', now))
  return after
}

const changed = (after: LeaseRow, from: LeaseState, now: Date): EventDraft => {
  const lease = toLease(after, now)
  return { type: 'lease.state_changed', resource: resource(after), data: { ...lease, from, to: lease.state } }
}

const resource = ({ id }: Pick<LeaseRow, 'id'>): string => `/api/v1/dhcp/leases/${id}`

const isBound = (db: Db, { net, address, mac }: { net: number; address: number; mac: string }): boolean =>
  boundEndpoint(db, net, address)?.mac === mac

function* everyActive(db: Db, now: Date): Generator<LeaseRow> {
  for (let last: LeaseRow | undefined; ; ) {
    const page = leasePage(db, 'active', seconds(now), last)
    yield* page
    last = page.at(-1)
    if (last === undefined) return
  }
}
