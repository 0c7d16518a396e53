/** Map `quotas`: memory that agent and programs share. What the programs count is begun here and otherwise only read. */
import type { BpfMap } from '../bpf/map.ts'
import { MappedArray } from '../bpf/mapped.ts'
import type { QuotaEntry } from './entries.ts'
import {
  QUOTA_ACTION,
  QUOTA_BLOCK,
  QUOTA_CLOCK_END,
  QUOTA_CLOCK_MONTH,
  QUOTA_EXCEEDED,
  QUOTA_LIMIT,
  QUOTA_MONTH,
  QUOTA_NUMBER,
  QUOTA_ROWS,
  QUOTA_THROTTLE,
  QUOTA_TOLD,
  QUOTA_USED,
  QUOTA_WARN,
  QUOTA_WARNED,
  QUOTA_WORD_BITS,
} from './numbers.ts'

const ACTIONS = { count: 0, block: QUOTA_BLOCK, throttle: QUOTA_THROTTLE } as const

/** Bytes, and the month that they are of: year * 12 + month from 0 on. */
export interface Usage {
  used: number
  month: number
}

/** The month in UTC that a moment is in, and when the next one begins. */
export function monthOf(now: Date): { month: number; end: Date } {
  const month = now.getUTCFullYear() * 12 + now.getUTCMonth()
  return { month, end: new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1)) }
}

export class Quotas {
  readonly #words: MappedArray
  readonly #clock: MappedArray

  constructor(quotas: BpfMap<number, bigint>, clock: BpfMap<number, bigint>) {
    this.#words = new MappedArray(quotas)
    this.#clock = new MappedArray(clock)
  }

  /** What was counted for the quota; undefined when the slot is not its. */
  usage({ slot, number }: Pick<QuotaEntry, 'slot' | 'number'>): Usage | undefined {
    if (this.#get(slot, QUOTA_NUMBER) !== BigInt(number)) return undefined
    const month = Number(this.#get(slot, QUOTA_MONTH))
    return { used: Number(this.#get(slot, QUOTA_USED)), month }
  }

  /** Makes the slot that of the quota. What it has counted for it stays. */
  put(quota: QuotaEntry): void {
    const { slot, number, limit, warn, action, stored } = quota
    if (this.#get(slot, QUOTA_NUMBER) !== BigInt(number)) {
      // Without a limit the program passes the slot by.
      this.#set(slot, QUOTA_LIMIT, 0n)
      const current = Number(this.#clock.get(QUOTA_CLOCK_MONTH))
      // A clock that is early, as before NTP has set it, reopens no month.
      this.#set(slot, QUOTA_MONTH, BigInt(Math.max(current, stored.month)))
      this.#set(slot, QUOTA_USED, BigInt(stored.month >= current ? stored.used : 0))
      this.#set(slot, QUOTA_NUMBER, BigInt(number))
    }
    // The limit last: a program reads the others after it.
    this.#set(slot, QUOTA_ACTION, BigInt(ACTIONS[action]))
    this.#set(slot, QUOTA_WARN, BigInt(warn))
    this.#set(slot, QUOTA_LIMIT, BigInt(limit))
    const used = this.#get(slot, QUOTA_USED)
    const told = used >= BigInt(limit) ? QUOTA_EXCEEDED : used >= BigInt(warn) ? QUOTA_WARNED : 0
    this.#set(slot, QUOTA_TOLD, BigInt(told))
  }

  holds(quota: QuotaEntry): boolean {
    const { slot, number, limit, warn, action } = quota
    return (
      this.#get(slot, QUOTA_NUMBER) === BigInt(number) &&
      this.#get(slot, QUOTA_LIMIT) === BigInt(limit) &&
      this.#get(slot, QUOTA_WARN) === BigInt(warn) &&
      this.#get(slot, QUOTA_ACTION) === BigInt(ACTIONS[action])
    )
  }

  /**
   * Tells the programs which month it is and when the next begins, as a number of CLOCK_MONOTONIC. A program reads the month
   * first and adds one when its end is over: in this order it takes no month for a later one.
   */
  setMonth(month: number, endNs: bigint): void {
    this.#clock.set(QUOTA_CLOCK_END, endNs)
    this.#clock.set(QUOTA_CLOCK_MONTH, BigInt(month))
  }

  close(): void {
    this.#words.close()
    this.#clock.close()
  }

  #get(slot: number, word: number): bigint {
    return this.#words.get(at(slot, word))
  }

  #set(slot: number, word: number, value: bigint): void {
    this.#words.set(at(slot, word), value)
  }
}

function at(slot: number, word: number): number {
  if (!(slot >= 0 && slot < QUOTA_ROWS)) throw new RangeError(`slot ${slot} is none of 0 to ${QUOTA_ROWS - 1}`)
  return (slot << QUOTA_WORD_BITS) | word
}
