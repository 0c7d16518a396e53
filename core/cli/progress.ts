/** A line on a terminal about a call that takes its time: what it is, what has come, how long it has taken. */

export interface Progress {
  begin(what: string): Step
}
export interface Step {
  received(bytes: number): void
  /** Takes the line away. A second call does nothing. */
  end(): void
}

/** What is answered sooner is not worth a line, ms. */
const QUIET_MS = 1000
const TICK_MS = 500
const CLEAR = '\r\u001b[K'

export const NO_PROGRESS: Progress = { begin: () => ({ received: () => {}, end: () => {} }) }

/** Nothing is shown where `terminal` is none: a file or a pipe would keep every line. */
export function progressOn(terminal: Pick<NodeJS.WriteStream, 'isTTY' | 'write' | 'columns'>): Progress {
  if (!terminal.isTTY) return NO_PROGRESS
  return {
    begin(what) {
      const began = performance.now()
      let bytes = 0
      let shown = false
      const clock = setInterval(() => {
        const ms = performance.now() - began
        if (ms < QUIET_MS) return
        shown = true
        const line = [what, ...(bytes > 0 ? [sizeText(bytes)] : []), `${Math.floor(ms / 1000)} s`].join('  ')
        terminal.write(`${CLEAR}${line.slice(0, (terminal.columns ?? 80) - 1)}`)
      }, TICK_MS)
      clock.unref()
      return {
        received(count) {
          bytes += count
        },
        end() {
          clearInterval(clock)
          if (shown) terminal.write(CLEAR)
          shown = false
        },
      }
    },
  }
}

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB', 'PB']
/** Decimal units, at most four digits: `1.2 MB`. */
export function sizeText(bytes: number): string {
  let value = bytes
  let at = 0
  while (value >= 1000 && at < UNITS.length - 1) {
    value /= 1000
    at++
  }
  return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[at]}`
}
