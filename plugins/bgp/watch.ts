/** Follows the sessions: what has changed is stored and told. */
import { eq } from 'drizzle-orm'
import type { AreaContext, Change, Db, EventDraft, Stop } from '../../core/area.ts'
import { system } from '../../core/state/events.ts'
import type { NeighborState } from '../../dataplane/frr/bgp.ts'
import { resource, toNeighbor } from './neighbors.ts'
import { queries } from './queries.ts'
import { sessions } from './tables.ts'

/** A session that comes up spends milliseconds in OpenSent and OpenConfirm; what lies between two looks is not seen. */
const EVERY_MS = 250
/** What hundreds of neighbors say takes long to read: so many times as long nothing is looked at, but never longer than the most. */
const RESTS = 20
const MOST_MS = 5000
/** Without a session these two take turns, each time that a connection is tried. */
const TRYING: readonly string[] = ['Connect', 'Active']

export function watchSessions({ read, plane, mutate, now, log }: AreaContext): Stop {
  let looking: Promise<void> | undefined
  let failing = false

  async function look(): Promise<void> {
    try {
      const live = await plane.bgp.neighbors()
      if (differs(read, live)) await mutate(system('bgp'), (tx) => follow(tx, live, now()))
      failing = false
    } catch (error) {
      if (!failing) log.warn({ err: error }, 'the BGP sessions could not be looked at; this is tried again')
      failing = true
    }
  }

  let clock = setTimeout(turn, EVERY_MS)
  let stopped = false
  function turn(): void {
    const since = performance.now()
    looking = (queries(read).speaker.get() === undefined ? Promise.resolve() : look()).then(() => {
      const rest = RESTS * (performance.now() - since)
      if (!stopped) clock = setTimeout(turn, Math.min(MOST_MS, Math.max(EVERY_MS, rest)))
    })
  }
  return async () => {
    stopped = true
    clearTimeout(clock)
    await looking
  }
}

interface Seen {
  state: string
  bfd: string
}
const IDLE = (bfd: boolean): Seen => ({ state: 'Idle', bfd: bfd ? 'down' : 'disabled' })

function differs(db: Db, live: readonly NeighborState[]): boolean {
  return moves(db, live).next().done === false
}

/** Neighbors that are not as they were last seen. */
function* moves(db: Db, live: readonly NeighborState[]) {
  const states = new Map(live.map((it) => [it.address, it]))
  const known = new Map(
    queries(db)
      .sessions.all()
      .map((it) => [it.neighborId, it]),
  )
  for (const row of queries(db).neighbors.all()) {
    const state = states.get(row.addr)
    const [was, is] = [known.get(row.id), state ?? IDLE(row.bfd)]
    if (was && (was.state !== is.state || was.bfd !== is.bfd)) yield { row, was, is, live: state }
  }
}

export function follow(tx: Db, live: readonly NeighborState[], now: Date): Change<void> {
  const events: EventDraft[] = []
  for (const { row, was, is, live: state } of moves(tx, live)) {
    const moved = was.state !== is.state
    const session = { ...was, state: is.state, bfd: is.bfd, changedAt: moved ? now.getTime() : was.changedAt }
    tx.update(sessions).set(session).where(eq(sessions.neighborId, row.id)).run()
    const data = toNeighbor(row, session, state)
    const told = (type: string, from: string, to: string) =>
      events.push({ type, resource: resource(row.addr), data: { ...data, from, to } })
    const trying = TRYING.includes(was.state) && TRYING.includes(is.state)
    if (moved && !trying) told('neighbor.state_changed', was.state, is.state)
    if (was.bfd !== is.bfd) told('bfd.state_changed', was.bfd, is.bfd)
  }
  return { result: undefined, touch: [], events }
}
