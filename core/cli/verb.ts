/**
 * The contract of a command of stratumctl. An area brings its own in `plugins/<name>/verbs.ts`, which exports
 * `verbs: Verb[]` and imports this file and types only: every start of the CLI loads all of them.
 *
 * A verb turns its arguments into calls and answers into text. It judges nothing that the agent judges.
 */

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
  required?: boolean
}

export interface Verb {
  /** The words after `stratumctl`: `rules schedule`. */
  path: string
  summary: string
  /** One command line for the help, from the first word of `path` on. */
  example: string
  arguments?: readonly VerbArgument[]
  options?: readonly VerbOption[]
  run(context: VerbContext): Promise<void>
}

export type OptionValue = string | number | true

export interface VerbContext {
  /**
   * Calls the agent over its control socket and resolves with the body of the answer: the value of JSON, else the text.
   * `T` is what the route is known to answer. Rejects with `Refused` or `Unreachable`; let both pass.
   */
  call<T = unknown>(method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body?: object): Promise<T>
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

/** Lines with their cells aligned to the left; an absent or empty cell is `-`. */
export function columns(rows: readonly (readonly Cell[])[]): string {
  const texts = rows.map((row) => row.map((cell) => (cell === undefined || cell === '' ? '-' : String(cell))))
  const widest = (at: number) => texts.reduce((most, row) => Math.max(most, row[at]?.length ?? 0), 0)
  const widths = (texts[0] ?? []).map((_text, at) => widest(at))
  const line = (row: readonly string[]) => row.map((text, at) => text.padEnd(widths[at] ?? 0)).join('  ')
  return texts.map((row) => line(row).trimEnd()).join('\n')
}
