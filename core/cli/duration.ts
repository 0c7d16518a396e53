/** Lengths of time on the command line. */

const SECONDS = new Map([
  ['', 1],
  ['s', 1],
  ['m', 60],
  ['h', 3600],
  ['d', 86_400],
])

/** Seconds of `90`, `90s`, `15m`, `3h` or `7d`; undefined for what is no length of time. */
export function secondsIn(text: string): number | undefined {
  const [, count = '', unit = ''] = /^([0-9]{1,12})([smhd]?)$/.exec(text) ?? []
  const seconds = Number(count) * (SECONDS.get(unit) ?? Number.NaN)
  return count !== '' && Number.isSafeInteger(seconds) ? seconds : undefined
}
