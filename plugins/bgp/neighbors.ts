/** Domain rules of neighbors (D77, D79). */
import { eq } from 'drizzle-orm'
import type { Change, Db, EventDraft, Ref } from '../../core/area.ts'
import { alreadyExists, badRequest, limitReached, notFound } from '../../core/errors.ts'
import type { NeighborState } from '../../dataplane/frr/bgp.ts'
import { parsePrefix } from '../../dataplane/nft/text.ts'
import { attributesRef, listRef, mapRef, neighborRef, networkRef, outletRef, speakerRef } from './desired.ts'
import { everyAnnouncement, queries } from './queries.ts'
import type { Neighbor, NeighborInput } from './schemas.ts'
import { type NeighborRow, neighbors, type SessionRow, sessions, speaker } from './tables.ts'
import { readAddress, readKey } from './values.ts'

const HOLD_TIME = 90
const BFD = { interval: 300, multiplier: 3 }

export const resource = (addr: string): string => `/api/v1/bgp/neighbors/${encodeURIComponent(addr)}`

/** `live`: what the speaker says of it right now; without it what was seen last. */
export function toNeighbor(row: NeighborRow, session: SessionRow | undefined, live?: NeighborState): Neighbor {
  const state = live?.state ?? (session?.state as Neighbor['state'] | undefined) ?? 'Idle'
  const seen = state === session?.state ? session.changedAt : Date.now()
  return {
    id: row.addr,
    peer_addr: row.addr,
    peer_as: row.peerAs,
    local_as: row.localAs,
    state,
    hold_time: row.holdTime,
    keepalive_interval: row.keepalive,
    bfd_enabled: row.bfd,
    bfd_interval_ms: row.bfdInterval,
    bfd_multiplier: row.bfdMultiplier,
    last_state_change: new Date(seen).toISOString(),
    messages_in: live?.messagesIn ?? 0,
    messages_out: live?.messagesOut ?? 0,
    graceful_restart: true,
    bfd_status: row.bfd ? (live?.bfd ?? (session?.bfd as Neighbor['bfd_status'] | undefined) ?? 'down') : 'disabled',
    bfd_detect_time_ms: row.bfd ? row.bfdInterval * row.bfdMultiplier : 0,
    peer_graceful_restart: live?.peerGracefulRestart ?? false,
    installs_routes: !row.view,
  }
}

/**
 * `routerId`: for the first neighbor of the node. `md5`: whether keys can be set here.
 * @throws ApiError 400 for what cannot be read, 409 when there is one or the limit is reached
 */
export function createNeighbor(
  tx: Db,
  input: NeighborInput,
  { max, now, routerId, md5 }: { max: number; now: Date; routerId: string; md5(): boolean },
): Change<{ status: 'created'; neighbor: Neighbor }> {
  const values = readInput(input)
  if (values.md5Key !== '' && !md5())
    throw badRequest('md5_key: this kernel has no TCP-MD5 (CONFIG_TCP_MD5SIG): leave it out, or use another kernel')
  if (queries(tx).neighbor.get({ addr: values.addr })) throw alreadyExists(`neighbor ${values.addr}`)
  if ((queries(tx).neighborCount.get()?.many ?? 0) >= max) throw limitReached('BGP neighbors', max)
  const known = queries(tx).speaker.get()
  if (known === undefined) tx.insert(speaker).values({ id: 1, as: values.localAs, routerId }).run()
  const main = known?.as ?? values.localAs
  const { peerAs, localAs } = values
  // The speaker of the node can pass for another AS towards others, but not towards that AS itself: iBGP has one AS.
  const view = localAs !== main && (peerAs === localAs || peerAs === main)
  const speakerAs = view ? localAs : main
  const touch: Ref[] = [neighborRef(values.addr), outletRef(0)]
  if (queries(tx).ofSpeaker.get({ as: speakerAs }) === undefined) touch.push(...ofSpeaker(tx, speakerAs))
  if (known === undefined) touch.push(...ofAll(tx))
  const row = tx
    .insert(neighbors)
    .values({ ...values, speakerAs, view })
    .returning()
    .get()
  const session = { neighborId: row.id, state: 'Idle', bfd: row.bfd ? 'down' : 'disabled', changedAt: now.getTime() }
  tx.insert(sessions).values(session).run()
  const neighbor = toNeighbor(row, session)
  return {
    result: { status: 'created', neighbor },
    touch,
    events: [{ type: 'neighbor.created', resource: resource(row.addr), data: neighbor }],
  }
}

/** @throws ApiError 404 */
export function deleteNeighbor(tx: Db, path: string): Change<{ status: 'deleted'; addr: string }> {
  const row = findNeighbor(tx, path)
  const { addr, exportMap, speakerAs } = row
  tx.delete(neighbors).where(eq(neighbors.id, row.id)).run()
  tx.delete(sessions).where(eq(sessions.neighborId, row.id)).run()
  const touch: Ref[] = [neighborRef(addr), outletRef(exportMap)]
  if (queries(tx).ofSpeaker.get({ as: speakerAs }) === undefined) touch.push(...ofSpeaker(tx, speakerAs))
  if ((queries(tx).neighborCount.get()?.many ?? 0) === 0) {
    tx.delete(speaker).run()
    touch.push(...ofAll(tx))
  }
  const events: EventDraft[] = [{ type: 'neighbor.deleted', resource: resource(addr), data: { id: addr } }]
  return { result: { status: 'deleted', addr }, touch, events }
}

/** `path`: as a URL names it. @throws ApiError 404 */
export function findNeighbor(db: Db, path: string): NeighborRow {
  const addr = path.includes('/') ? undefined : parsePrefix(path)?.text
  const row = addr === undefined ? undefined : queries(db).neighbor.get({ addr })
  if (row === undefined) throw notFound('neighbor', path.replace(/[^\x21-\x7e]/g, '?').slice(0, 64))
  return row
}

/** What a speaker holds besides its neighbors. */
function ofSpeaker(tx: Db, as: number): Ref[] {
  return [speakerRef(as), ...Array.from(everyAnnouncement(tx), ({ prefix }) => networkRef(as, prefix))]
}

/** What there is while any speaker is. */
function ofAll(tx: Db): Ref[] {
  const attributes = new Set(Array.from(everyAnnouncement(tx), (row) => row.attributes))
  return [
    ...[...attributes].map(attributesRef),
    ...queries(tx)
      .lists.all()
      .map(({ id }) => listRef(id)),
    ...queries(tx)
      .maps.all()
      .map(({ id }) => mapRef(id)),
  ]
}

function readInput(input: NeighborInput) {
  const { text: addr } = readAddress(input.peer_addr, 'peer_addr')
  const holdTime = input.hold_time ?? HOLD_TIME
  const keepalive = input.keepalive_interval ?? Math.floor(holdTime / 3)
  // RFC 4271 §4.2 and §4.4.
  if (holdTime > 0 && holdTime < 3) throw badRequest('hold_time: must be 0 (never) or at least 3 seconds')
  if (keepalive > 0 && keepalive >= holdTime) throw badRequest('keepalive_interval: must be shorter than hold_time')
  if (keepalive === 0 && holdTime > 0) throw badRequest('keepalive_interval: 0 goes with a hold_time of 0 only')
  return {
    ...{ addr, peerAs: input.peer_as, localAs: input.local_as, holdTime },
    // Less often than three times in a hold time bgpd does not send it.
    keepalive: Math.min(keepalive, Math.floor(holdTime / 3)),
    md5Key: readKey(input.md5_key),
    bfd: input.bfd_enabled ?? false,
    bfdInterval: input.bfd_interval_ms ?? BFD.interval,
    bfdMultiplier: input.bfd_multiplier ?? BFD.multiplier,
  }
}
