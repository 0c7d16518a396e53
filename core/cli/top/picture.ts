/** What was read as lines of a terminal. Pure. */
import { columns, harmless, type PaneRows } from '../verb.ts'

export interface Shown {
  title: string
  /** Why there is nothing to show is a text. */
  rows: PaneRows | string
}

/** Less than this of a pane is not worth its title. */
const LEAST_ROWS = 1

/** Every pane gets its title and head; what is left of `height` is shared, and what a short one leaves goes to the others. */
export function picture(head: readonly string[], panes: readonly Shown[], width: number, height: number): string[] {
  const wanted = panes.map(({ rows }) => (typeof rows === 'string' ? 0 : rows.rows.length))
  const fixed = head.length + panes.length * 3
  const given = shared(wanted, Math.max(height - fixed, panes.length * LEAST_ROWS))
  const lines = [...head]
  panes.forEach(({ title, rows }, at) => {
    if (typeof rows === 'string') {
      lines.push('', `${title}: ${harmless(rows)}`)
      return
    }
    const count = given[at] ?? 0
    const hidden = rows.rows.length - count
    const notes = [rows.note ?? '', hidden > 0 ? `${hidden} more below` : ''].filter((note) => note !== '')
    lines.push('', `${title}${notes.length > 0 ? ` (${notes.join('; ')})` : ''}`)
    if (rows.rows.length > 0) lines.push(...columns([rows.head, ...rows.rows.slice(0, count)]).split('\n'))
  })
  return lines.map((line) => line.slice(0, width))
}

/** Max-min fair: nobody gets more than wanted, and nobody less than an equal share while another gets more than that. */
export function shared(wanted: readonly number[], room: number): number[] {
  const given = wanted.map(() => 0)
  let left = room
  let open = wanted.map((_want, at) => at).filter((at) => (wanted[at] ?? 0) > 0)
  while (left > 0 && open.length > 0) {
    const part = Math.max(1, Math.floor(left / open.length))
    for (const at of open) {
      const take = Math.min(part, (wanted[at] ?? 0) - (given[at] ?? 0), left)
      given[at] = (given[at] ?? 0) + take
      left -= take
    }
    open = open.filter((at) => (given[at] ?? 0) < (wanted[at] ?? 0))
  }
  return given
}
