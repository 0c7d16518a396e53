/** What accounting answers (D92), out of one snapshot of the store, in slices. */
import type { Db } from '../../core/area.ts'
import { inSlices } from '../../core/slices.ts'
import { everyMac } from './fold.ts'
import { dayKey, dayOf, dayOfKey, KEPT_DAYS, partsOfSample, SLOT_MS, SLOTS_A_DAY, sampleKey, slotOf } from './keys.ts'
import { mbps, percentile95 } from './percentile.ts'
import { queries } from './queries.ts'
import { NODE } from './record.ts'
import type { Billing, Percentile, Summary } from './schemas.ts'
import { decodeSeries, emptySeries, kilobytes } from './series.ts'
import { NOTHING, plus } from './sums.ts'
import type { Sums } from './tables.ts'
import { slotsOf, type Window } from './window.ts'

const GB = 1e9
/** Days that are read at once. */
const PAGE = 64
const iso = (ms: number) => new Date(ms).toISOString()
const nothing = (): Sums => ({ ...NOTHING })
const bytesOf = ({ bytesIn, bytesOut }: Sums) => bytesIn + bytesOut

export interface Carried {
  /** Both ways together. */
  bytes: number
  /** The larger one of both ways. */
  p95Mbps: number
}

/** A window in slots. */
interface Slots {
  first: number
  /** First one behind it. */
  behind: number
  /** First one of which not everything has been read: it has no rate yet. */
  open: number
}

/** A sample of a day that is not over. */
interface Live extends Sums {
  slot: number
}

export async function summaryOf(db: Db, window: Window): Promise<Summary> {
  const slots = slotsIn(db, window)
  const live = await liveSamples(db, slots)
  const sums = sumOf(db, NODE, slots, live.get(NODE))
  let vms = 0
  await inSlices(everyMac(db), ({ id }) => {
    if (live.has(id) || bytesOf(wholeDays(db, id, slots)) > 0 || bytesOf(cutDays(db, id, slots)) > 0) vms++
  })
  return {
    total_bandwidth_gb: bytesOf(sums) / GB,
    total_bytes: bytesOf(sums),
    total_packets: sums.packetsIn + sums.packetsOut,
    total_vms: vms,
    active_ips: queries(db).activeAddresses.get({ first: slots.first, behind: slots.behind })?.many ?? 0,
    period_start: iso(window.start),
    period_end: iso(window.end),
  }
}

/** What each MAC with traffic costs at `rate` USD for each Mbps of the larger of its two percentiles. */
export async function billingOf(db: Db, window: Window, rate: number): Promise<Billing> {
  const slots = slotsIn(db, window)
  const live = await liveSamples(db, slots)
  const room = new Room(slots)
  const items: Billing['items'] = []
  await inSlices(everyMac(db), async ({ id, mac, firstSlot }) => {
    const own = live.get(id)
    const bytes = bytesOf(sumOf(db, id, slots, own))
    if (bytes === 0) return
    const { inward, out } = await percentiles(db, { id, firstSlot }, slots, own, room)
    const p95 = Math.max(inward, out)
    items.push({ mac, bytes_total: bytes, gb: bytes / GB, p95_mbps: p95, cost_usd: cents(p95 * rate) / 100 })
  })
  items.sort((a, b) => (a.mac < b.mac ? -1 : 1))
  const total = items.reduce((sum, { cost_usd }) => sum + cents(cost_usd), 0) / 100
  return { period: `${iso(window.start)}/${iso(window.end)}`, total_usd: total, items }
}

/** What a tenant's workloads have carried together. */
export async function carriedOf(db: Db, tenant: string, window: Window): Promise<Carried> {
  const known = queries(db).mac.get({ mac: tenant })
  if (known === undefined) return { bytes: 0, p95Mbps: 0 }
  const slots = slotsIn(db, window)
  const live = (await liveSamples(db, slots, known.id)).get(known.id)
  const { inward, out } = await percentiles(db, known, slots, live, new Room(slots))
  return { bytes: bytesOf(sumOf(db, known.id, slots, live)), p95Mbps: Math.max(inward, out) }
}

/** Of all MACs together. */
export async function percentileOf(db: Db, window: Window): Promise<Percentile> {
  const slots = slotsIn(db, window)
  const live = await liveSamples(db, slots, NODE)
  const node = queries(db).macById.get({ id: NODE })
  const { inward, out } =
    node === undefined ? { inward: 0, out: 0 } : await percentiles(db, node, slots, live.get(NODE), new Room(slots))
  return { in_mbps: inward, out_mbps: out, period_start: iso(window.start), period_end: iso(window.end) }
}

/** A number of USD as whole cents; the error of binary fractions must not decide about half a cent. */
const cents = (usd: number): number => Math.round(Number((usd * 100).toPrecision(15)))

/** Within what can be stored: the key of a day that is too far away is that of another MAC's day. */
function slotsIn(db: Db, window: Window): Slots {
  const now = slotOf(queries(db).reading.get()?.at ?? 0)
  const oldest = Math.max(0, now - (KEPT_DAYS + 1) * SLOTS_A_DAY)
  const stored = (slot: number) => Math.min(Math.max(slot, oldest), now + 1)
  const { first, behind } = slotsOf(window)
  return { first: stored(first), behind: stored(behind), open: Math.min(Math.floor(window.end / SLOT_MS), now) }
}

/** Samples of days that are not folded, by MAC; of one only where it is named. */
async function liveSamples(db: Db, { first, behind }: Slots, only?: number): Promise<Map<number, Live[]>> {
  const found = new Map<number, Live[]>()
  const id = queries(db).firstSample.get()?.id
  if (id === null || id === undefined) return found
  const from = Math.max(first, partsOfSample(id).slot)
  // No sample is later than the last reading.
  const to = Math.min(behind, slotOf(queries(db).reading.get()?.at ?? 0) + 1)
  const slots = Array.from({ length: Math.max(0, to - from) }, (_, n) => from + n)
  await inSlices(slots, (slot) => {
    const [low, high] = only === undefined ? [sampleKey(slot, 0), sampleKey(slot + 1, 0)] : keysOf(slot, only)
    for (const { id: key, ...sums } of queries(db).samplesBetween.all({ from: low, behind: high })) {
      const { macId } = partsOfSample(key)
      const own = found.get(macId)
      if (own) own.push({ slot, ...sums })
      else found.set(macId, [{ slot, ...sums }])
    }
  })
  return found
}

const keysOf = (slot: number, macId: number) => [sampleKey(slot, macId), sampleKey(slot, macId) + 1] as const

function sumOf(db: Db, macId: number, slots: Slots, live: readonly Live[] = []): Sums {
  const sums = wholeDays(db, macId, slots)
  plus(sums, cutDays(db, macId, slots))
  for (const sample of live) plus(sums, sample)
  return sums
}

/** Days that lie in the window as a whole: the first, and the first behind them. */
const wholeRange = ({ first, behind }: Slots) => {
  return { from: Math.ceil(first / SLOTS_A_DAY), behind: Math.floor(behind / SLOTS_A_DAY) }
}

function wholeDays(db: Db, macId: number, slots: Slots): Sums {
  const { from, behind } = wholeRange(slots)
  if (from >= behind) return nothing()
  return queries(db).sumOfDays.get({ from: dayKey(macId, from), to: dayKey(macId, behind - 1) }) ?? nothing()
}

/** Of days that the window cuts: bytes by their samples, and packets in proportion, which samples of past days lack. */
function cutDays(db: Db, macId: number, slots: Slots): Sums {
  const sums = nothing()
  const { first, behind } = slots
  const whole = wholeRange(slots)
  for (const day of new Set([dayOf(first), dayOf(behind - 1)])) {
    if (day >= whole.from && day < whole.behind) continue
    const id = dayKey(macId, day)
    const [row] = queries(db).series.all({ from: id, to: id })
    const all = queries(db).day.get({ id })
    if (row === undefined || all === undefined) continue
    const { in: inward, out } = decodeSeries(row.kilobytes)
    const [low, high] = [Math.max(0, first - day * SLOTS_A_DAY), Math.min(SLOTS_A_DAY, behind - day * SLOTS_A_DAY)]
    const part = (values: Float64Array, total: number) => {
      const within = values.subarray(low, high).reduce((sum, value) => sum + value, 0)
      const every = values.reduce((sum, value) => sum + value, 0)
      return every === 0 ? 0 : (total * within) / every
    }
    plus(sums, {
      bytesIn: Math.round(part(inward, all.bytesIn)),
      bytesOut: Math.round(part(out, all.bytesOut)),
      packetsIn: Math.round(part(inward, all.packetsIn)),
      packetsOut: Math.round(part(out, all.packetsOut)),
    })
  }
  return sums
}

/** Memory for the samples of a window, for one MAC after the other. */
class Room {
  readonly inward: Float64Array
  readonly out: Float64Array
  readonly day = emptySeries()

  constructor({ first, open }: Slots) {
    const length = Math.max(0, open - first)
    this.inward = new Float64Array(length)
    this.out = new Float64Array(length)
  }
}

/** In slices: the samples of a MAC are 115,000 in 400 days. */
async function percentiles(
  db: Db,
  { id, firstSlot }: { id: number; firstSlot: number },
  { first, open }: Slots,
  live: readonly Live[] = [],
  room: Room,
): Promise<{ inward: number; out: number }> {
  const from = Math.max(first, firstSlot)
  const count = Math.max(0, open - from)
  if (count === 0) return { inward: 0, out: 0 }
  const { inward, out, day } = room
  let [ins, outs] = [0, 0]
  const note = (kbIn: number, kbOut: number) => {
    if (kbIn > 0) inward[ins++] = kbIn
    if (kbOut > 0) out[outs++] = kbOut
  }
  const last = dayOf(open - 1)
  const pages = Array.from({ length: Math.ceil((last + 1 - dayOf(from)) / PAGE) }, (_, n) => dayOf(from) + n * PAGE)
  await inSlices(pages, (page) => {
    const to = Math.min(last, page + PAGE - 1)
    for (const row of queries(db).series.all({ from: dayKey(id, page), to: dayKey(id, to) })) {
      const start = dayOfKey(row.id) * SLOTS_A_DAY
      decodeSeries(row.kilobytes, day)
      const high = Math.min(SLOTS_A_DAY, open - start)
      for (let n = Math.max(0, from - start); n < high; n++) note(day.in[n] ?? 0, day.out[n] ?? 0)
    }
  })
  for (const { slot, bytesIn, bytesOut } of live) {
    if (slot >= from && slot < open) note(kilobytes(bytesIn), kilobytes(bytesOut))
  }
  return { inward: mbps(percentile95(inward, ins, count)), out: mbps(percentile95(out, outs, count)) }
}
