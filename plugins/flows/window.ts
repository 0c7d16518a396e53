/** The window that accounting is asked for (D92). Pure. */
import { badRequest } from '../../core/errors.ts'
import { SLOT_MS } from './keys.ts'

/** Milliseconds of Unix time; a sample is in the window when its slot begins in it. */
export interface Window {
  start: number
  end: number
}

/** Without `start` it begins with the running month (UTC), without `end` it ends now. @throws ApiError 400 */
export function windowOf({ start, end }: { start?: string; end?: string }, now: Date): Window {
  const month = Date.UTC(now.getUTCFullYear(), now.getUTCMonth())
  const window = {
    start: start === undefined ? month : parseTime('start', start),
    end: end === undefined ? now.getTime() : parseTime('end', end),
  }
  // At midnight of the first a month begins that nothing has happened in.
  const untouched = start === undefined && end === undefined
  if (window.start > window.end || (window.start === window.end && !untouched)) {
    throw badRequest(
      start === undefined && end !== undefined
        ? 'end: is before the running month; give start, too'
        : 'start: must be before end',
    )
  }
  return window
}

/** First slot of the window, and the first behind it. */
export const slotsOf = ({ start, end }: Window): { first: number; behind: number } => {
  return { first: Math.ceil(start / SLOT_MS), behind: Math.ceil(end / SLOT_MS) }
}

const TIME = /^(\d{4})-(\d\d)-(\d\d)[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)$/

/** RFC 3339 section 5.6, without leap seconds. @throws ApiError 400 */
function parseTime(field: string, text: string): number {
  const [, year, month, day] = TIME.exec(text) ?? []
  const time = Date.parse(text.toUpperCase())
  // The language takes the 30th of February for the 2nd of March.
  const exists = new Date(Date.UTC(Number(year), Number(month) - 1, Number(day))).getUTCDate() === Number(day)
  if (year === undefined || Number.isNaN(time) || !exists) {
    throw badRequest(`${field}: must be an RFC 3339 time, 2030-01-31T00:00:00Z`)
  }
  return time
}
