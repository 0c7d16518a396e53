/** What is seen of the sessions: what of it is new, and how that is stored and told (D79). */
import type { Change, Db, EventDraft } from '../../core/area.ts'
import { inSlices } from '../../core/slices.ts'
import type { BfdState, BgpState, NeighborState, SessionSeen } from '../../dataplane/frr/bgp.ts'
import { resource, toNeighbor } from './neighbors.ts'
import { queries } from './queries.ts'
import type { NeighborRow, SessionRow } from './tables.ts'

/** The state of a neighbor's session or that of its BFD, or both. */
export interface Seen {
  address: string
  state?: BgpState
  bfd?: BfdState
  /** Unix ms. */
  at?: number
}

/** bgpd tells in whole seconds since when a session is established, and reckons that anew each time. */
const CLOCK_MS = 2000

export const stateOf = ({ address, state, bfd, establishedAt }: NeighborState): Seen => ({
  ...{ address, state, bfd },
  ...(establishedAt !== undefined && { at: establishedAt * 1000 }),
})

/** Of every neighbor that is stored; whom the speaker does not have is idle. */
export function everyOne(db: Db, seen: readonly (Seen | SessionSeen)[], now: Date): Seen[] {
  const found = new Map(seen.map((it) => [it.address, it]))
  return queries(db)
    .neighbors.all()
    .map(({ addr, bfd }) => {
      const idle: Seen = { address: addr, state: 'Idle', bfd: bfd ? 'down' : 'disabled' }
      return { at: now.getTime(), ...(found.get(addr) ?? idle) }
    })
}

/** BFD alone, of every neighbor with it. */
export const bfdOf = (db: Db, sessions: ReadonlyMap<string, BfdState>, now: Date): Seen[] =>
  queries(db)
    .neighbors.all()
    .filter(({ bfd }) => bfd)
    .map(({ addr }) => ({ address: addr, bfd: sessions.get(addr) ?? 'down', at: now.getTime() }))

/** Those that are not as stored. */
export function changed(db: Db, seen: readonly Seen[]): Seen[] {
  const known = new Map(
    queries(db)
      .known.all()
      .map((it) => [it.addr, it]),
  )
  return seen.filter((it) => {
    const was = known.get(it.address)
    return was !== undefined && !same(was, it)
  })
}

function same(was: Pick<SessionRow, 'state' | 'bfd' | 'changedAt'>, { state, bfd, at = 0 }: Seen): boolean {
  if ((state ?? was.state) !== was.state || (bfd ?? was.bfd) !== was.bfd) return false
  return !(state === 'Established' && at > was.changedAt + CLOCK_MS)
}

/** Stores what was seen, in its order, and tells of each move. */
export async function follow(tx: Db, seen: readonly Seen[]): Promise<Change<void>> {
  const events: EventDraft[] = []
  await inSlices(seen, (it) => {
    const row = queries(tx).neighbor.get({ addr: it.address })
    const was = row && queries(tx).session.get({ id: row.id })
    if (!row || !was || same(was, it)) return
    const moved = it.state !== undefined
    const is = { ...was, state: it.state ?? was.state, bfd: it.bfd ?? was.bfd }
    if (moved && it.at !== undefined) is.changedAt = it.at
    queries(tx).move.run({ ...is, id: row.id })
    for (const event of told(row, was, is)) events.push(event)
  })
  return { result: undefined, touch: [], events }
}

function* told(row: NeighborRow, was: SessionRow, is: SessionRow): Generator<EventDraft> {
  const { messages_in: _in, messages_out: _out, peer_graceful_restart: _restart, ...data } = toNeighbor(row, is)
  const event = (type: string, from: string, to: string): EventDraft => ({
    type,
    resource: resource(row.addr),
    data: { ...data, from, to },
  })
  if (was.state !== is.state) yield event('neighbor.state_changed', was.state, is.state)
  if (was.bfd !== is.bfd) yield event('bfd.state_changed', was.bfd, is.bfd)
}
