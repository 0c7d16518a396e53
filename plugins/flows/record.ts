/**
 * From the kernel's counters to samples. What a counter had reached is stored with the samples, in one transaction, so
 * nothing is lost and nothing counts twice whenever the agent dies; the kernel goes on counting.
 */
import type { AreaContext, Change, Db } from '../../core/area.ts'
import { inSlices } from '../../core/slices.ts'
import type { Usage } from '../../dataplane/bpf/flow/traffic.ts'
import type { Plane } from '../../dataplane/plane.ts'
import { addDay } from './fold.ts'
import { counterKey, dayOf, KEPT_DAYS, portion, SLOT_MS, SLOTS_A_DAY, sampleKey, shares, slotOf } from './keys.ts'
import { type Numbers, numbersOf } from './numbers.ts'
import { queries } from './queries.ts'
import { emptySeries, kilobytes } from './series.ts'
import { minus, NOTHING, plus } from './sums.ts'
import type { Sums } from './tables.ts'
import { tenantsGrowth } from './tenants.ts'

/** A clock that was set back by more than this had been wrong before: then its time is not waited for. */
const AHEAD_MS = 3_600_000
/** Addresses of a MAC that are kept: a guest on an open port may send from as many as it likes. */
const ADDRESSES = 64
/** The sum of all MACs. */
export const NODE = 0

/** Time as the readings see it: that of a clock that was set back stands still. Milliseconds. */
interface Span {
  from: number
  to: number
}

/**
 * Reads the counters and adds what is new to the samples. The counters are read here, in the pipeline, because of two
 * readings that overlap the later one to be stored might be the earlier one to be read. Of MACs that get no number because
 * there have been too many nothing is added; how many is stored, and logged when it begins.
 */
export async function takeReading(
  tx: Db,
  { traffic, ports }: Pick<Plane, 'traffic' | 'ports'>,
  now: Date,
  log: Pick<AreaContext['log'], 'warn' | 'error'>,
): Promise<Change<void>> {
  const before = lastReading(tx, now.getTime(), log)
  const to = Math.max(before?.at ?? 0, now.getTime())
  const from = Math.max(before?.at ?? to, to - (KEPT_DAYS - 1) * SLOTS_A_DAY * SLOT_MS)
  const numbers = numbersOf(tx)
  const all = { ...NOTHING }
  let refused = 0
  await inSlices(await traffic.usage(), (usage) => {
    if (usage.downPackets + usage.upPackets === 0) return
    const macId = idOf(tx, usage.mac, slotOf(from), numbers[usage.bound ? 'bound' : 'open'])
    if (macId === undefined) {
      refused++
      return
    }
    const fresh = growth(tx, macId, usage)
    if (fresh === undefined) return
    if (usage.address !== '0.0.0.0') noteAddress(tx, macId, usage.address, { from, to })
    spread(tx, macId, fresh, { from, to })
    plus(all, fresh)
  })
  await inSlices(await tenantsGrowth(tx, ports), ([tenant, fresh]) => {
    const id = idOf(tx, tenant, slotOf(from), numbers.tenant)
    if (id === undefined) refused++
    else spread(tx, id, fresh, { from, to })
  })
  if (all.packetsIn + all.packetsOut > 0) {
    if (queries(tx).macById.get({ id: NODE }) === undefined) {
      queries(tx).addMac.run({ id: NODE, mac: '', firstSlot: slotOf(from) })
    }
    spread(tx, NODE, all, { from, to })
  }
  if (refused > 0 && (before?.refused ?? 0) === 0) {
    log.warn(
      { refused },
      'too many MACs were seen: new ones are not accounted; bind them, or find the guest that invents them',
    )
  }
  queries(tx).putReading.run({ at: to, refused })
  return { result: undefined, touch: [], events: [] }
}

/**
 * The last reading. When its clock was far ahead it counts as taken now: all that follows would fall into its slot. A clock
 * that is at a time before anything was accounted is the wrong one itself, as it is after a start without a battery.
 */
function lastReading(tx: Db, now: number, log: Pick<AreaContext['log'], 'error'>) {
  const last = queries(tx).reading.get()
  if (last === undefined || last.at - now <= AHEAD_MS) return last
  if (slotOf(now) < (queries(tx).macById.get({ id: NODE })?.firstSlot ?? 0)) return last
  log.error(
    { ahead: new Date(last.at).toISOString() },
    'traffic was accounted by a clock that was ahead; samples go on from now, and what was stored ahead stays there',
  )
  queries(tx).beginNow.run({ slot: slotOf(now) })
  return { ...last, at: now }
}

/** What was counted since the last reading, which is noted; undefined when that is nothing. */
function growth(tx: Db, macId: number, usage: Usage): Sums | undefined {
  const { bound, born, upBytes, upPackets, downBytes, downPackets } = usage
  const reached: Sums = { bytesIn: downBytes, bytesOut: upBytes, packetsIn: downPackets, packetsOut: upPackets }
  const id = counterKey(macId, bound)
  const known = queries(tx).counter.get({ id })
  const sums = known?.born === born ? minus(reached, known) : reached
  if (sums.packetsIn + sums.packetsOut <= 0) return undefined
  queries(tx).putCounter.run({ id, born, ...reached })
  return sums
}

function idOf(tx: Db, mac: string, firstSlot: number, next: Numbers[keyof Numbers]): number | undefined {
  const known = queries(tx).mac.get({ mac })
  if (known !== undefined) return known.id
  const id = next()
  if (id !== undefined) queries(tx).addMac.run({ id, mac, firstSlot })
  return id
}

/** Of too many addresses those go that were not seen for longest. */
function noteAddress(tx: Db, macId: number, address: string, { from, to }: Span): void {
  const firstSlot = slotOf(from)
  // What ends with a slot belongs to it.
  const lastSlot = Math.max(firstSlot, slotOf(to - 1))
  if (queries(tx).seeAddress.run({ macId, address, lastSlot }).changes > 0) return
  queries(tx).forgetAddresses.run({ macId, keep: ADDRESSES - 1 })
  queries(tx).addAddress.run({ macId, address, firstSlot, lastSlot })
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
