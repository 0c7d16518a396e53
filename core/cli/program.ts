/** From the table of verbs to a command line: parsing, help, output, exit codes. */
import { Argument, Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import type { Places } from '../environment.ts'
import { VERSION } from '../version.ts'
import { type Ask, type Call, Refused, Unreachable } from './client.ts'
import { secondsIn } from './duration.ts'
import type { Lines } from './lines.ts'
import type { Screen } from './screen.ts'
import { harmless, type OptionValue, UsageError, type Verb, type VerbContext, type VerbOption } from './verb.ts'

/** Part of the process contract: tools rely on these. */
export const EXIT = { ok: 0, refused: 1, usage: 2, unreachable: 3, warning: 4, failure: 5 } as const

export interface Outside {
  call: Call
  ask: Ask
  lines: Lines
  stdin: (prompt: string) => Promise<string>
  out: (text: string) => void
  /** Resolves once standard output has room for more. */
  drained: () => Promise<void>
  err: (text: string) => void
  places: Places
  screen: () => Screen | undefined
}

/** Carries out one command line (without the program's name). Resolves with the exit code; only a defect rejects. */
export async function run(argv: readonly string[], verbs: readonly Verb[], outside: Outside): Promise<number> {
  const outcome: Outcome = { code: EXIT.ok }
  const program = buildProgram(verbs, outside, outcome)
  try {
    await program.parseAsync([...argv], { from: 'user' })
    return outcome.code
  } catch (error) {
    // Commander has said what is wrong; asking for help or the version is no error.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage
    if (!(error instanceof UsageError || error instanceof Refused || error instanceof Unreachable)) throw error
    const json = program.opts().json === true && error instanceof Refused
    outside.err(
      json ? `${JSON.stringify(error.body)}\n` : `stratumctl: ${error.message.split('\n').map(harmless).join('\n')}\n`,
    )
    if (error instanceof UsageError) return EXIT.usage
    return error instanceof Refused ? EXIT.refused : EXIT.unreachable
  }
}

interface Outcome {
  code: number
}

/** Throws when two verbs have the same path. */
export function buildProgram(verbs: readonly Verb[], outside: Outside, outcome: Outcome = { code: EXIT.ok }): Command {
  const program = new Command('stratumctl')
    .description("Talks to stratumd, the agent that owns this node's networking.")
    .version(VERSION)
    .option('--json', 'print the answer as JSON')
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: outside.out,
      writeErr: outside.err,
      outputError: (text, write) => write(text.replace(/^error: /, 'stratumctl: ')),
    })
    .exitOverride()
  // In this order a verb comes before those whose path continues its own, and help is alphabetical.
  for (const verb of [...verbs].sort((a, b) => (a.path < b.path ? -1 : 1))) addVerb(program, verb, outside, outcome)
  for (const group of program.commands) describeGroup(group)
  return program
}

function addVerb(program: Command, verb: Verb, outside: Outside, outcome: Outcome): void {
  const words = verb.path.split(' ')
  const leaf = words.at(-1) ?? ''
  const parent = words
    .slice(0, -1)
    .reduce((at, word) => at.commands.find((c) => c.name() === word) ?? at.command(word), program)
  const command = parent
    .command(leaf)
    .description(verb.summary)
    .showHelpAfterError(`(see: stratumctl ${verb.path} --help)`)
    .addHelpText('after', `\nExample:\n  stratumctl ${verb.example}`)
  for (const { name, summary, optional, choices, mayBeEmpty } of verb.arguments ?? []) {
    const argument = new Argument(optional ? `[${name}]` : `<${name}>`, summary)
    if (choices) argument.choices(choices)
    else if (!mayBeEmpty) argument.argParser(notEmpty)
    command.addArgument(argument)
  }
  for (const option of verb.options ?? []) command.addOption(toOption(option))
  command.action(async () => {
    outcome.code = (await verb.run(contextOf(verb, command, outside))) ?? EXIT.ok
  })
}

function toOption({ flags, summary, integer, duration, required, many }: VerbOption): Option {
  const option = new Option(flags, required ? `${summary} (required)` : summary)
  if (required) option.makeOptionMandatory()
  if (integer) option.argParser(wholeNumber)
  if (duration) option.argParser(lengthOfTime)
  if (many) option.argParser((text: string, before: readonly string[] | undefined) => [...(before ?? []), text])
  return option
}

function contextOf(verb: Verb, command: Command, outside: Outside): VerbContext {
  const { call, ask, lines, stdin, out, drained, err, places, screen } = outside
  const { json, ...values } = command.optsWithGlobals<Record<string, OptionValue> & { json?: true }>()
  const options: Record<string, OptionValue> = {}
  for (const option of command.options) {
    const value = values[option.attributeName()]
    if (value !== undefined && option.long) options[option.long.slice(2)] = value
  }
  return {
    call,
    ask,
    lines,
    stdin,
    options,
    json: json === true,
    places,
    screen,
    async write(text) {
      out(text)
      await drained()
    },
    argument(name) {
      const at = verb.arguments?.findIndex((argument) => argument.name === name) ?? -1
      if (at < 0) throw new Error(`${verb.path} declares no argument ${name}`)
      return command.args[at] ?? ''
    },
    print: (answer, text) => out(json ? `${JSON.stringify(answer, null, 2)}\n` : `${text}\n`),
    async printLine(answer, text) {
      if (json) out(`${JSON.stringify(answer)}\n`)
      else if (text !== undefined) out(`${text}\n`)
      await drained()
    },
    note: (text) => (json ? undefined : err(`${text}\n`)),
  }
}

/** A word that is no verb itself says which ones it begins. */
function describeGroup(command: Command): void {
  for (const inner of command.commands) describeGroup(inner)
  if (command.description() === '') command.description(command.commands.map((inner) => inner.name()).join(', '))
}

function notEmpty(text: string): string {
  if (text === '') throw new InvalidArgumentError('It is empty.')
  return text
}

function lengthOfTime(text: string): number {
  const seconds = secondsIn(text)
  if (seconds === undefined) throw new InvalidArgumentError('It must be a length of time: 90s, 15m, 3h or 7d.')
  return seconds
}

function wholeNumber(text: string): number {
  if (!/^-?[0-9]{1,15}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.')
  return Number(text)
}
