/** Slots, days, and the numbers by which rows are ordered. Pure. */
export const SLOT_MS = 300_000
export const SLOTS_A_DAY = 288
/** Days that are kept (D92). */
export const KEPT_DAYS = 400

export const slotOf = (ms: number): number => Math.floor(ms / SLOT_MS)
export const dayOf = (slot: number): number => Math.floor(slot / SLOTS_A_DAY)

/** Above any number of a MAC or a tenant, and any day until the year 2243. */
const MACS = 2 ** 20
const DAYS = 100_000

/** Highest number of a tenant, and of a MAC. */
export const LAST_TENANT = MACS - 1
export const LAST_MAC = LAST_TENANT - 32_768
/** Orders by slot: what is written together stands together. */
export const sampleKey = (slot: number, macId: number): number => slot * MACS + macId
export const partsOfSample = (key: number): { slot: number; macId: number } => {
  return { slot: Math.floor(key / MACS), macId: key % MACS }
}
/** Orders by MAC: what is read together stands together. */
export const dayKey = (macId: number, day: number): number => macId * DAYS + day
export const dayOfKey = (key: number): number => key % DAYS
/** A MAC has counters as a bound one and as another. */
export const counterKey = (macId: number, bound: boolean): number => macId * 2 + Number(bound)

/** An hour of silence of the agent is an hour of samples: the part of each slot in what passed from `from` to `to` (ms). */
export function shares(from: number, to: number): { slot: number; until: number }[] {
  if (from >= to) return [{ slot: slotOf(to), until: 1 }]
  const all: { slot: number; until: number }[] = []
  // What ends with a slot belongs to it.
  for (let slot = slotOf(from); slot * SLOT_MS < to; slot++) {
    all.push({ slot, until: Math.min(1, ((slot + 1) * SLOT_MS - from) / (to - from)) })
  }
  return all
}

/** The part of a whole number that falls between two of the fractions of `shares`: all parts together are the whole. */
export const portion = (total: number, before: number, until: number): number =>
  Math.floor(total * until) - Math.floor(total * before)
