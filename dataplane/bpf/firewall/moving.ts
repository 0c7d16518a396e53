/**
 * Rules go from tables that shall go to those that stay, while packets are judged and rules change. Each is filed in its
 * new place; a grace period later no packet needs the old one any longer, and a table that is left by all is closed.
 */
import { inSlices, Pace } from '../../slices.ts'
import { type FilterFamily, hold, type Laid, type Traces } from './family.ts'
import type { Table } from './table-set.ts'

/** Rules that are moved before changes may pass, and before the tables that are empty then are closed. */
const CHUNK = 512

export interface MovingParts {
  inTurn<T>(work: () => Promise<T>): Promise<T>
  grace(): Promise<void>
  /** Does it again when room has been made. */
  withRoom(work: () => Promise<void>): Promise<void>
  remember(family: FilterFamily, traces: Traces): void
  isClosed(): boolean
}

/** Empties the tables that shall go. A change may want one of them again meanwhile: then it stays. */
export async function move(family: FilterFamily, parts: MovingParts): Promise<void> {
  const { inTurn, grace, withRoom, remember, isClosed } = parts
  const leaving = () => family.tables.all().filter((table) => table.leaving)
  if (leaving().length === 0) return
  let closed: Table[] = []
  const pace = new Pace()

  const each = async (ids: readonly number[], work: (id: number, traces: Traces) => void) => {
    for (let at = 0; at < ids.length && !isClosed(); at += CHUNK) {
      const chunk = ids.slice(at, at + CHUNK)
      const part = () => inSlices(chunk, (id) => tracing(family, remember, (it) => work(id, it)))
      await inTurn(() => pace.during(() => withRoom(part)))
      await pace.rest()
    }
  }

  /** Closes what is empty, and takes away what moved. What is half done the next agent finds, and it does no harm. */
  const finish = async (ids: readonly number[]) => {
    // Empty for a grace period: no packet needs what ended there, or moved, any longer.
    const empty = leaving().filter(({ places }) => places === 0)
    const returns = new Map(empty.map((table) => [table, table.returns]))
    await grace()
    for (const table of closed) family.tables.forget(table)
    closed = []
    if (isClosed()) return
    await inTurn(async () => {
      const isLeft = (table: Table) => table.leaving && table.places === 0 && table.returns === returns.get(table)
      closed = empty.filter(isLeft)
      for (const table of closed) family.tables.close(table)
    })
    await each(ids, (id, traces) => takeAway(family, id, traces))
  }

  let moved: number[] = []
  for (const ids of await rulesOf(family)) {
    await each(ids, (id, traces) => copy(family, id, traces))
    moved = moved.concat(ids)
    if (moved.length < CHUNK) continue
    await finish(moved)
    if (isClosed()) return
    moved = []
  }
  await finish(moved)
  if (closed.length === 0) return
  await grace()
  for (const table of closed) family.tables.forget(table)
}

/** Ids of the rules in tables that shall go, table by table: those with the fewest first, so that most are closed soon. */
async function rulesOf(family: FilterFamily): Promise<number[][]> {
  const ids = new Map<Table | undefined, number[]>()
  await inSlices(family.standing, ([id, { places }]) => {
    const place = places.find(({ table }) => !table || table.leaving)
    if (place === undefined) return
    const others = ids.get(place.table)
    if (others) others.push(id)
    else ids.set(place.table, [id])
  })
  return [...ids.values()].sort((a, b) => a.length - b.length)
}

/** What `work` leaves behind is remembered, also when it fails. */
function tracing(family: FilterFamily, remember: MovingParts['remember'], work: (traces: Traces) => void): void {
  const traces: Traces = { slots: [], freed: [] }
  try {
    work(traces)
  } finally {
    if (traces.slots.length + traces.freed.length > 0) remember(family, traces)
  }
}

/** Files a rule anew if it stands in a table that shall go; its places until now are about to go then. @throws NoRoom */
function copy(family: FilterFamily, id: number, traces: Traces): void {
  const standing = family.standing.get(id)
  if (!standing?.places.some(({ table }) => table?.leaving)) return
  const image = family.imageOf(id, standing)?.slice()
  if (image === undefined) return
  const before = [...standing.places]
  const laid: Laid = new Map()
  family.place(image, standing.places, laid)
  for (const [hash, filings] of laid) {
    // Where it stands already, it would stand twice.
    const slot = family.arena.slotOf(hash)
    const isThere = slot !== undefined && family.arena.cellOf(slot, id) !== undefined
    if (!isThere) family.file(hash, filings, traces)
    else for (const { places, table } of filings) hold(places, slot, table)
  }
  family.release(before)
}

/** Takes a rule out of the runs in which no packet looks for it. @throws NoRoom */
function takeAway(family: FilterFamily, id: number, { freed }: Traces): void {
  const standing = family.standing.get(id)
  if (!standing?.places.some(({ table }) => table === undefined)) return
  const stays = standing.places.filter(({ table }) => table !== undefined)
  for (const { slot } of standing.places) {
    if (stays.some((place) => place.slot === slot)) continue
    const block = family.arena.remove(slot, id)
    if (block) freed.push(block)
  }
  standing.places = stays
}
