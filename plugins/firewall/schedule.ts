/** Windows in which a rule is in force (D70). All times are UTC; the kernel keeps them, so they hold without the agent. */
import { badRequest } from '../../core/errors.ts'
import type { FilterWindow } from '../../dataplane/bpf/firewall/entries.ts'
import type { ScheduleInput } from './schemas.ts'
import type { Row } from './tables.ts'

export interface Schedule {
  scheduleFrom: string
  scheduleTo: string
  scheduleDaily: boolean
}

export const NO_SCHEDULE: Schedule = { scheduleFrom: '', scheduleTo: '', scheduleDaily: false }

const TIME_OF_DAY = /^([01][0-9]|2[0-3]):[0-5][0-9]$/
const TIMESTAMP = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2})?(\.\d{1,3})?(Z|[+-]\d{2}:\d{2})$/

/** Throws a 400 that says what is expected. A daily window may pass midnight. */
export function parseSchedule({ from, to, daily = false }: ScheduleInput): Schedule {
  if (daily) {
    if (!TIME_OF_DAY.test(from) || !TIME_OF_DAY.test(to)) throw badRequest('from, to: must be HH:MM in UTC')
    if (from === to) throw badRequest('to: must differ from from')
    return { scheduleFrom: from, scheduleTo: to, scheduleDaily: true }
  }
  const [start, end] = [instant(from, 'from'), instant(to, 'to')]
  if (end <= start) throw badRequest('to: must be later than from')
  return { scheduleFrom: start, scheduleTo: end, scheduleDaily: false }
}

function instant(text: string, field: string): string {
  const day = new Date(`${text.slice(0, 10)}T00:00:00Z`)
  const time = TIMESTAMP.test(text) && !Number.isNaN(day.getTime()) ? new Date(text) : undefined
  // Date takes the 30th of February for the 2nd of March.
  const real = time !== undefined && !Number.isNaN(time.getTime()) && day.toISOString().startsWith(text.slice(0, 10))
  if (!real) throw badRequest(`${field}: must be an RFC 3339 time`)
  return `${time.toISOString().slice(0, 19)}Z`
}

export const isScheduled = (row: Schedule): boolean => row.scheduleFrom !== ''

/** Whether `at` lies in the window; both ends belong to it, as in nft. */
export function scheduleHolds(row: Schedule, at: Date): boolean {
  if (!isScheduled(row)) return true
  const { scheduleFrom: from, scheduleTo: to } = row
  const second = at.toISOString().slice(0, 19)
  if (!row.scheduleDaily) return `${second}Z` >= from && `${second}Z` <= to
  const clock = second.slice(11)
  const [start, end] = [`${from}:00`, `${to}:00`]
  return start < end ? clock >= start && clock <= end : clock >= start || clock <= end
}

/** The next moment after `at` at which the window opens; undefined when it never does again. */
export function nextOpening(row: Schedule, at: Date): Date | undefined {
  if (!isScheduled(row)) return undefined
  if (!row.scheduleDaily) {
    const start = new Date(row.scheduleFrom)
    return start > at ? start : undefined
  }
  const today = new Date(`${at.toISOString().slice(0, 10)}T${row.scheduleFrom}:00Z`)
  return today > at ? today : new Date(today.getTime() + 86_400_000)
}

/** A range ends after its beginning: libnftables 1.1 refuses any other, and 1.0 leaves out both ends of it. */
const overMidnight = (from: string, to: string): string =>
  `{ "${from}"-"23:59:59", ${to === '00:00' ? '"00:00"' : `"00:00"-"${to}"`} }`

/** The nft expression of the window; '' without one. The nft helper runs in UTC. */
export function scheduleText(row: Pick<Row, keyof Schedule>): string {
  if (!isScheduled(row)) return ''
  const { scheduleFrom: from, scheduleTo: to } = row
  if (row.scheduleDaily) return `meta hour ${from < to ? `"${from}"-"${to}"` : overMidnight(from, to)}`
  const plain = (text: string) => `"${text.slice(0, 19).replace('T', ' ')}"`
  return `meta time ${plain(from)}-${plain(to)}`
}

/** The window as the classifier takes it; undefined without one. */
export function scheduleWindow(row: Pick<Row, keyof Schedule>): FilterWindow | undefined {
  if (!isScheduled(row)) return undefined
  const { scheduleFrom: from, scheduleTo: to, scheduleDaily: daily } = row
  const seconds = (text: string) => Date.parse(daily ? `1970-01-01T${text}:00Z` : text) / 1000
  return { from: seconds(from), to: seconds(to), daily }
}
