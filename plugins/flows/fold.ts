/** Days that are over: their samples become one row of sums and one of bytes, and after 400 days they go. */
import type { Change, Db } from '../../core/area.ts'
import { inSlices } from '../../core/slices.ts'
import {
  counterKey,
  dayKey,
  dayOf,
  KEPT_DAYS,
  LAST_MAC,
  LAST_TENANT,
  partsOfSample,
  SLOTS_A_DAY,
  sampleKey,
  slotOf,
} from './keys.ts'
import { queries } from './queries.ts'
import { decodeSeries, emptySeries, encodeSeries, kilobytes, type Series } from './series.ts'
import type { Sums } from './tables.ts'
import { forgetBindings } from './tenants.ts'

export const NOTHING_TOLD: Change<void> = { result: undefined, touch: [], events: [] }

/** The earliest day that has samples and is over, by the last reading; undefined when there is none. */
export function overdueDay(db: Db): number | undefined {
  const id = queries(db).firstSample.get()?.id
  const at = queries(db).reading.get()?.at
  if (id === null || id === undefined || at === undefined) return undefined
  const day = dayOf(partsOfSample(id).slot)
  return day < dayOf(slotOf(at)) ? day : undefined
}

/** Folds the samples of a day. */
export async function fold(tx: Db, day: number): Promise<Change<void>> {
  const slots = slotsOfDay(day)
  const found = new Map<number, { sums: Sums; series: Series }>()
  await inSlices(slots, (slot) => {
    for (const { id, ...sums } of queries(tx).samplesBetween.all(range(slot))) {
      const { macId } = partsOfSample(id)
      const one = found.get(macId)
      const { series } = one ?? { series: emptySeries() }
      series.in[slot % SLOTS_A_DAY] = kilobytes(sums.bytesIn)
      series.out[slot % SLOTS_A_DAY] = kilobytes(sums.bytesOut)
      if (one === undefined) found.set(macId, { sums, series })
      else {
        one.sums.bytesIn += sums.bytesIn
        one.sums.bytesOut += sums.bytesOut
        one.sums.packetsIn += sums.packetsIn
        one.sums.packetsOut += sums.packetsOut
      }
    }
  })
  await inSlices(found, ([macId, { sums, series }]) => addDay(tx, macId, day, sums, series))
  await inSlices(slots, (slot) => queries(tx).removeSamples.run(range(slot)))
  return NOTHING_TOLD
}

/** Adds to what is stored of a day, in which no slot has a sample yet that `series` has one in. */
export function addDay(tx: Db, macId: number, day: number, sums: Sums, series: Series): void {
  const id = dayKey(macId, day)
  const [known] = queries(tx).series.all({ from: id, to: id })
  if (known !== undefined) {
    const before = decodeSeries(known.kilobytes)
    for (let n = 0; n < SLOTS_A_DAY; n++) {
      series.in[n] = (series.in[n] ?? 0) + (before.in[n] ?? 0)
      series.out[n] = (series.out[n] ?? 0) + (before.out[n] ?? 0)
    }
  }
  queries(tx).addDay.run({ id, ...sums })
  queries(tx).putSeries.run({ id, kilobytes: encodeSeries(series) })
}

/**
 * Removes what is older than is kept, and MACs of which nothing is left; not those that the kernel still counts for, whose
 * counters would then be taken for new. `today` is a day that is not over.
 */
export async function prune(tx: Db, today: number, counted: ReadonlySet<string>): Promise<Change<void>> {
  const first = today - KEPT_DAYS
  const alive = new Set<number>()
  await inSlices(slotsOfDay(today), (slot) => {
    for (const { id } of queries(tx).samplesBetween.all(range(slot))) alive.add(partsOfSample(id).macId)
  })
  const all = [{ id: 0, mac: '', firstSlot: 0 }, ...everyMac(tx, LAST_TENANT)]
  await inSlices(all, ({ id, mac, firstSlot }) => {
    const old = { from: dayKey(id, 0), to: dayKey(id, first - 1) }
    queries(tx).removeSeries.run(old)
    queries(tx).removeDays.run(old)
    const left = queries(tx).anyDay.get({ from: dayKey(id, first), to: dayKey(id + 1, 0) - 1 })
    if (left !== undefined || alive.has(id) || counted.has(mac) || dayOf(firstSlot) >= first) return
    queries(tx).removeMac.run({ id })
    queries(tx).removeCounters.run({ from: counterKey(id, false), to: counterKey(id, true) })
  })
  queries(tx).removeAddresses.run({ before: first * SLOTS_A_DAY })
  await forgetBindings(tx)
  return NOTHING_TOLD
}

/** All but the node, a few at a time; tenants as well where `end` is behind them. */
export function* everyMac(db: Db, end = LAST_MAC): Generator<{ id: number; mac: string; firstSlot: number }> {
  for (let after = 0; ; ) {
    const page = queries(db).macsAfter.all({ after, last: end, limit: 500 })
    yield* page
    const last = page.at(-1)
    if (last === undefined) return
    after = last.id
  }
}

const slotsOfDay = (day: number) => Array.from({ length: SLOTS_A_DAY }, (_, n) => day * SLOTS_A_DAY + n)
const range = (slot: number) => ({ from: sampleKey(slot, 0), behind: sampleKey(slot + 1, 0) })
