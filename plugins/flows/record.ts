/**
 * From the kernel's counters to samples. What a counter had reached is stored with the samples, in one transaction, so
 * nothing is lost and nothing counts twice whenever the agent dies; the kernel goes on counting.
 */
import type { Change, Db } from '../../core/area.ts'
import { inSlices } from '../../core/slices.ts'
import type { Traffic, Usage } from '../../dataplane/bpf/flow/traffic.ts'
import { addDay } from './fold.ts'
import {
  counterKey,
  dayOf,
  KEPT_DAYS,
  LAST_MAC,
  portion,
  SLOT_MS,
  SLOTS_A_DAY,
  sampleKey,
  shares,
  slotOf,
} from './keys.ts'
import { queries } from './queries.ts'
import { emptySeries, kilobytes } from './series.ts'
import type { Sums } from './tables.ts'

/** Highest number that a MAC gets which is not bound. */
const LAST_OPEN_MAC = 65_536
/** The sum of all MACs. */
export const NODE = 0

const NOTHING: Sums = { bytesIn: 0, bytesOut: 0, packetsIn: 0, packetsOut: 0 }

/** Time as the readings see it: that of a clock that was set back stands still. Milliseconds. */
interface Span {
  from: number
  to: number
}

/**
 * Reads the counters and adds what is new to the samples. The counters are read here, in the pipeline, because of two
 * readings that overlap the later one to be stored might be the earlier one to be read.
 */
export async function takeReading(tx: Db, traffic: Pick<Traffic, 'usage'>, now: Date): Promise<Change<void>> {
  const last = queries(tx).reading.get()?.at
  const to = Math.max(last ?? 0, now.getTime())
  const from = Math.max(last ?? to, to - (KEPT_DAYS - 1) * SLOTS_A_DAY * SLOT_MS)
  const all = { ...NOTHING }
  await inSlices(await traffic.usage(), (usage) => {
    const fresh = growth(tx, usage, slotOf(from))
    if (fresh === undefined) return
    spread(tx, fresh.macId, fresh.sums, { from, to })
    plus(all, fresh.sums)
  })
  if (all.packetsIn + all.packetsOut > 0) {
    if (queries(tx).macById.get({ id: NODE }) === undefined) {
      queries(tx).addMac.run({ id: NODE, mac: '', firstSlot: slotOf(from) })
    }
    spread(tx, NODE, all, { from, to })
  }
  queries(tx).putReading.run({ at: to })
  return { result: undefined, touch: [], events: [] }
}

/** What was counted since the last reading, which is noted; undefined when that is nothing. */
function growth(tx: Db, usage: Usage, slot: number): { macId: number; sums: Sums } | undefined {
  const { mac, bound, born, upBytes, upPackets, downBytes, downPackets } = usage
  const reached: Sums = { bytesIn: downBytes, bytesOut: upBytes, packetsIn: downPackets, packetsOut: upPackets }
  if (downPackets + upPackets === 0) return undefined
  const macId = idOf(tx, mac, bound, slot)
  if (macId === undefined) return undefined
  const id = counterKey(macId, bound)
  const known = queries(tx).counter.get({ id })
  const sums = known?.born === born ? minus(reached, known) : reached
  if (sums.packetsIn + sums.packetsOut <= 0) return undefined
  queries(tx).putCounter.run({ id, born, ...reached })
  if (usage.address !== '0.0.0.0') queries(tx).putAddress.run({ macId, address: usage.address, slot })
  return { macId, sums }
}

/**
 * Undefined when there have been too many MACs: guests on open ports choose theirs, and must not use up the numbers of
 * those that are bound.
 */
function idOf(tx: Db, mac: string, bound: boolean, firstSlot: number): number | undefined {
  const known = queries(tx).mac.get({ mac })
  if (known !== undefined) return known.id
  const id = Math.max(queries(tx).lastMac.get()?.id ?? 0, NODE) + 1
  if (id > (bound ? LAST_MAC : LAST_OPEN_MAC)) return undefined
  queries(tx).addMac.run({ id, mac, firstSlot })
  return id
}

/**
 * Adds to the slots of a span what each has its part in. Days that lie wholly in it are written as days that are over,
 * which they are: an agent that was away for a month would leave millions of samples otherwise.
 */
function spread(tx: Db, macId: number, sums: Sums, { from, to }: Span): void {
  const [firstDay, today] = [dayOf(slotOf(from)), dayOf(slotOf(to))]
  let [before, day, series] = [0, { ...NOTHING }, emptySeries()]
  for (const { slot, until } of shares(from, to)) {
    const part = {
      bytesIn: portion(sums.bytesIn, before, until),
      bytesOut: portion(sums.bytesOut, before, until),
      packetsIn: portion(sums.packetsIn, before, until),
      packetsOut: portion(sums.packetsOut, before, until),
    }
    before = until
    const [at, inDay] = [dayOf(slot), slot % SLOTS_A_DAY]
    if (at === firstDay || at >= today) {
      if (part.bytesIn + part.bytesOut > 0) queries(tx).addSample.run({ id: sampleKey(slot, macId), ...part })
      continue
    }
    plus(day, part)
    series.in[inDay] = kilobytes(part.bytesIn)
    series.out[inDay] = kilobytes(part.bytesOut)
    if (inDay < SLOTS_A_DAY - 1) continue
    addDay(tx, macId, at, day, series)
    day = { ...NOTHING }
    series = emptySeries()
  }
}

export function plus(into: Sums, more: Sums): void {
  into.bytesIn += more.bytesIn
  into.bytesOut += more.bytesOut
  into.packetsIn += more.packetsIn
  into.packetsOut += more.packetsOut
}

const minus = (a: Sums, b: Sums): Sums => ({
  bytesIn: a.bytesIn - b.bytesIn,
  bytesOut: a.bytesOut - b.bytesOut,
  packetsIn: a.packetsIn - b.packetsIn,
  packetsOut: a.packetsOut - b.packetsOut,
})
