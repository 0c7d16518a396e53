/** The samples of a day as bytes: LEB128 numbers in kB, a run of zeros as 0 and its length; those in, then those out. Pure. */
import { SLOTS_A_DAY } from './keys.ts'

/** Kilobytes in each slot. */
export interface Series {
  in: Float64Array
  out: Float64Array
}

export const emptySeries = (): Series => ({ in: new Float64Array(SLOTS_A_DAY), out: new Float64Array(SLOTS_A_DAY) })

/** As samples are stored and compared: 1 kB in five minutes is 0.03 kbit/s. */
export const kilobytes = (bytes: number): number => Math.round(bytes / 1000)

export function encodeSeries({ in: inward, out }: Series): Buffer {
  const bytes: number[] = []
  for (const values of [inward, out]) {
    for (let n = 0; n < values.length; n++) {
      const value = values[n] ?? 0
      put(bytes, value)
      if (value !== 0) continue
      const from = n
      while (n + 1 < values.length && values[n + 1] === 0) n++
      put(bytes, n - from + 1)
    }
  }
  return Buffer.from(bytes)
}

/** @throws RangeError when the bytes are not those of a series */
export function decodeSeries(bytes: Uint8Array, series: Series = emptySeries()): Series {
  let at = 0
  const next = () => {
    let [value, scale] = [0, 1]
    for (;;) {
      const byte = bytes[at++]
      if (byte === undefined) throw new RangeError('the samples of a day end too early')
      value += (byte & 127) * scale
      if (byte < 128) return value
      scale *= 128
    }
  }
  for (const values of [series.in, series.out]) {
    for (let n = 0; n < values.length; ) {
      const value = next()
      const run = value === 0 ? next() : 1
      if (run < 1 || n + run > values.length) throw new RangeError('the samples of a day are too many')
      if (run === 1) values[n] = value
      else values.fill(value, n, n + run)
      n += run
    }
  }
  return series
}

function put(bytes: number[], value: number): void {
  let rest = value
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128)
  bytes.push(rest)
}
