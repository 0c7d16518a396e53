/** A terminal that is drawn on as a whole, again and again: plain ANSI (ECMA-48), nothing else. */
import type { ReadStream, WriteStream } from 'node:tty'

export type Wake = 'time' | 'resize' | 'quit'

export interface Screen {
  readonly columns: number
  readonly rows: number
  /** Replaces the picture; what is wider or longer than the terminal is cut. */
  draw(lines: readonly string[]): void
  /** Resolves after `ms`, when the size changed, or when the operator wants to leave (q, Ctrl-C, SIGTERM). */
  wait(ms: number): Promise<Wake>
  /** Gives the terminal back as it was. */
  close(): void
}

const ENTER = '\u001b[?1049h\u001b[?25l'
const LEAVE = '\u001b[?25h\u001b[?1049l'
const HOME = '\u001b[H'
const END_OF_LINE = '\u001b[K'
const END_OF_SCREEN = '\u001b[J'
const QUIT = new Set(['q', 'Q', '\u0003', '\u0004'])

/** undefined where `output` is no terminal. The terminal is given back even if the program ends by an error. */
export function openScreen(input: ReadStream, output: WriteStream): Screen | undefined {
  if (!output.isTTY) return undefined
  let wake: (why: Wake) => void = () => {}
  let leaving = false
  const quit = () => {
    leaving = true
    wake('quit')
  }
  const resized = () => wake('resize')
  const typed = (text: Buffer | string) => {
    if ([...String(text)].some((key) => QUIT.has(key))) quit()
  }
  const giveBack = () => void output.write(LEAVE)
  if (input.isTTY) input.setRawMode(true)
  input.on('data', typed).resume()
  output.on('resize', resized)
  process.on('SIGTERM', quit).on('SIGINT', quit).on('exit', giveBack)
  output.write(ENTER)
  return {
    get columns() {
      return output.columns || 80
    },
    get rows() {
      return output.rows || 24
    },
    draw(lines) {
      const { columns, rows } = this
      const shown = lines.slice(0, rows).map((line) => `${line.slice(0, columns)}${END_OF_LINE}`)
      // No line end behind the last line: it would move the picture up.
      output.write(`${HOME}${shown.join('\r\n')}${END_OF_SCREEN}`)
    },
    wait: (ms) =>
      new Promise((resolve) => {
        const done = (why: Wake) => {
          clearTimeout(timer)
          wake = () => {}
          resolve(why)
        }
        const timer = setTimeout(() => done('time'), ms)
        wake = done
        if (leaving) done('quit')
      }),
    close() {
      input.off('data', typed).pause()
      if (input.isTTY) input.setRawMode(false)
      output.off('resize', resized)
      process.off('SIGTERM', quit).off('SIGINT', quit).off('exit', giveBack)
      giveBack()
    },
  }
}
