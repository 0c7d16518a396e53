/**
 * The contract of a command of stratumctl. An area brings its own in `plugins/<name>/verbs.ts`, which exports
 * `verbs: Verb[]`, and `panes: Pane[]` where it has something that changes all the time, and imports this file and types only:
 * every start of the CLI loads all of them. What no area brings is made from the OpenAPI document (rest.ts).
 *
 * A verb turns its arguments into calls and answers into text. It judges nothing that the agent judges.
 */
import type { Places } from '../environment.ts'
import type { Ask } from './client.ts'
import type { Screen } from './screen.ts'

export interface VerbArgument {
  /** As the help shows it and as `argument()` is asked for it. */
  name: string
  summary: string
  optional?: boolean
  /** Only where the verb itself must tell the values apart; other values the agent refuses. */
  choices?: readonly string[]
  /** Whether '' is a value. */
  mayBeEmpty?: boolean
}

export interface VerbOption {
  /** `--dest-port <port>`; without a placeholder it is a flag. */
  flags: string
  summary: string
  /** The value is a whole number. */
  integer?: boolean
  /** The value is a length of time, `90s`, `15m`, `3h` or `7d`, and comes as seconds; a bare number is seconds. */
  duration?: boolean
  required?: boolean
  /** It may be given more than once; its value is a list. */
  many?: boolean
}

export interface Verb {
  /** The words after `stratumctl`: `rules schedule`. */
  path: string
  summary: string
  /** One command line for the help, from the first word of `path` on. */
  example: string
  arguments?: readonly VerbArgument[]
  options?: readonly VerbOption[]
  /** Resolves with an exit code where the outcome is another one than 0. */
  run(context: VerbContext): Promise<number | undefined> | Promise<void>
}

export type OptionValue = string | number | true | readonly string[]

/** A part of the picture of `stratumctl top`. */
export interface Pane {
  title: string
  /** Its place among the others, lower first. */
  order: number
  /** Reads what it shows, most interesting first. A refusal shows in its place. */
  read(look: Look): Promise<PaneRows>
}
export interface Look {
  call: VerbContext['call']
  /** By how much the counter `key` of this pane has grown a second since the last look; undefined at the first. */
  rate(key: string, count: number): number | undefined
  /** Bytes that devices have received and sent, of the namespace that this runs in. */
  devices: ReadonlyMap<string, { received: number; sent: number }>
}
export interface PaneRows {
  head: readonly string[]
  rows: readonly (readonly Cell[])[]
  /** Beside the title. */
  note?: string
}

export interface VerbContext {
  /**
   * Calls the agent over its control socket and resolves with the body of the answer: the value of JSON, else the text.
   * `T` is what the route is known to answer. Rejects with `Refused` or `Unreachable`; let both pass.
   */
  call<T = unknown>(method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body?: object): Promise<T>
  /** The same without a judgement: the answer as it comes, whatever its status. */
  ask: Ask
  /** A declared argument; '' when an optional one was left out. */
  argument(name: string): string
  /** The options that were given, by their long name without dashes: `options['dest-port']`. */
  readonly options: Readonly<Record<string, OptionValue>>
  /** A secret or document from standard input, its last line end cut off. At a terminal it asks, and shows no typing. */
  stdin(prompt: string): Promise<string>
  /** The outcome, on standard output: with `--json` the answer, else the lines of `text`. */
  print(answer: unknown, text: string): void
  /** The lines of an answer that goes on, until it ends or the operator interrupts. Rejects as `call` does. */
  lines(path: string): AsyncIterable<string>
  /** The next line of an outcome that goes on: with `--json` the answer, else the text if any. Resolves once it was taken. */
  printLine(answer: unknown, text?: string): Promise<void>
  /** Text as it is, on standard output. Resolves once it was taken. */
  write(text: string): Promise<void>
  /** Whether `--json` was given. */
  readonly json: boolean
  /** Where things are on this node, for what looks at it without the agent. */
  readonly places: Places
  /** The terminal to draw on; undefined where standard output is none. */
  screen(): Screen | undefined
  /** A remark for people, on standard error so that it does not mix with the outcome; silent with `--json`. */
  note(text: string): void
}

/** The command line cannot be carried out as written. Ends with exit code 2. */
export class UsageError extends Error {}

/** A path with every value encoded: path`/api/v1/rules/${id}`. */
export function path(parts: TemplateStringsArray, ...values: readonly (string | number)[]): string {
  return String.raw({ raw: parts }, ...values.map((value) => encodeURIComponent(value)))
}

export type Cell = string | number | boolean | undefined

/** A terminal would obey them, or show what follows in another direction. */
const CONTROL = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu
/** Text from elsewhere on one line of a terminal: what would be obeyed is shown as a question mark. */
export const harmless = (text: string): string => text.replace(CONTROL, '?')

/** Lines with their cells aligned to the left; an absent or empty cell is `-`. */
export function columns(rows: readonly (readonly Cell[])[]): string {
  const texts = rows.map((row) => row.map((cell) => (cell === undefined || cell === '' ? '-' : harmless(String(cell)))))
  const widest = (at: number) => texts.reduce((most, row) => Math.max(most, row[at]?.length ?? 0), 0)
  const widths = (texts[0] ?? []).map((_text, at) => widest(at))
  const line = (row: readonly string[]) => row.map((text, at) => text.padEnd(widths[at] ?? 0)).join('  ')
  return texts.map((row) => line(row).trimEnd()).join('\n')
}

/** Bits a second of a rate in bytes a second, decimal: `1.2 Mbit/s`. */
export function bitRate(bytes: number | undefined): string {
  if (bytes === undefined) return ''
  const bits = bytes * 8
  const at = bits < 1000 ? 0 : bits < 1e6 ? 1 : bits < 1e9 ? 2 : 3
  return `${at === 0 ? Math.round(bits) : (bits / 1000 ** at).toFixed(1)} ${['', 'k', 'M', 'G'][at]}bit/s`
}
