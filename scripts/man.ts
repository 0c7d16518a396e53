/**
 * `npm run man`, after a build: the manual in `build/man`, made from the READMEs, the verbs and the configuration keys, so that
 * it says nothing else than they do. stratumctl(1), stratumd(8), and stratum-<area>(8) for each area.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { allVerbs } from '../core/cli/table.ts'
import type { Verb } from '../core/cli/verb.ts'
import type { ConfigKeys } from '../core/config.ts'
import { CORE_KEYS } from '../core/keys.ts'
import { VERSION } from '../core/version.ts'
import { body, code, escaped, inline, term } from './man/roff.ts'

const ROOT = join(import.meta.dirname, '..', '..')
/** Into another folder with its path as the argument: who packs the pages does not share one. */
const OUT = process.argv[2] ?? join(ROOT, 'build/man')

/** Page → its text. @param root of the repository, with `build` in it */
export async function manual(root = ROOT): Promise<Map<string, string>> {
  const names = readdirSync(join(root, 'plugins'))
  const areas = names.map((area) => ({ area, readme: readFileSync(join(root, 'plugins', area, 'README.md'), 'utf8') }))
  const keys: ConfigKeys = Object.assign({}, CORE_KEYS)
  for (const { area } of areas) {
    const { default: plugin } = await import(pathToFileURL(join(root, 'build/plugins', area, 'index.js')).href)
    Object.assign(keys, plugin.area.config)
  }
  const pages = new Map([
    ['stratumctl.1', commands(await allVerbs(), names)],
    ['stratumd.8', daemon(readFileSync(join(root, 'README.md'), 'utf8'), keys, names)],
  ])
  for (const { area, readme } of areas) pages.set(`stratum-${area}.8`, areaPage(area, readme))
  return pages
}

const head = (name: string, section: number, what: string) => [
  `.TH ${name.toUpperCase()} ${section} "" "stratum-node ${VERSION}" "stratum-node"`,
  '.SH NAME',
  `${escaped(name)} \\- ${inline(what)}`,
]
const page = (lines: readonly string[]) => `${lines.join('\n')}\n`
const seeAlso = (names: readonly string[]) => [
  '.SH "SEE ALSO"',
  names.map((name) => `.BR ${escaped(name.replace(/\(\d\)$/, ''))} ${/\(\d\)$/.exec(name)?.[0]}`).join(' ,\n'),
]

function commands(verbs: readonly Verb[], areas: readonly string[]): string {
  const nouns = new Map<string, Verb[]>()
  for (const verb of [...verbs].sort((a, b) => (a.path < b.path ? -1 : 1))) {
    const noun = verb.path.split(' ', 1)[0] ?? ''
    nouns.set(noun, [...(nouns.get(noun) ?? []), verb])
  }
  return page([
    ...head('stratumctl', 1, 'operate the agent that owns the networking of this node'),
    '.SH SYNOPSIS',
    '\\fBstratumctl\\fR [\\fB\\-\\-json\\fR] \\fIcommand\\fR [\\fIargument\\fR ...] [\\fB\\-\\-help\\fR]',
    '.SH DESCRIPTION',
    'Speaks to stratumd over its control socket, which only root can open, and to nothing else. It needs no credential.',
    '.SH OPTIONS',
    ...term('\\fB\\-\\-json\\fR', 'Print the answer of the agent as JSON, and refusals as JSON on standard error.'),
    ...term('\\fB\\-\\-help\\fR', 'Explain a command.'),
    ...term('\\fB\\-\\-version\\fR', 'Print the version.'),
    '.SH COMMANDS',
    ...[...nouns.values()].flatMap((group) => group.flatMap(command)),
    '.SH "EXIT STATUS"',
    ...[
      ['0', 'Done.'],
      ['1', 'The agent refused; its reason is on standard error.'],
      ['2', 'The command line cannot be carried out as written. Nothing was asked of the agent.'],
      ['3', 'No answer from the agent. A change that was asked for may have been made.'],
      ['4', '\\fBdoctor\\fR found something to look at.'],
      ['5', '\\fBdoctor\\fR found something broken, such as an agent that does not run.'],
    ].flatMap(([status = '', text = '']) => term(status, text)),
    '.SH ENVIRONMENT',
    ...term('\\fBSTRATUM_RUN_DIR\\fR', 'Where control.sock is; /run/stratum unless set.'),
    ...term('\\fBSTRATUM_STATE_DIR\\fR', 'The state of the agent, for what looks at it without the agent.'),
    '.SH FILES',
    ...term('\\fI/run/stratum/control.sock\\fR', 'The control socket.'),
    ...seeAlso(['stratumd(8)', ...areas.map((area) => `stratum-${area}(8)`)]),
  ])
}

function command({ path, summary, example, arguments: own = [], options = [] }: Verb): string[] {
  const words = own.map(({ name, optional }) => `${optional ? '[' : ''}\\fI${escaped(name)}\\fR${optional ? ']' : ''}`)
  return [
    '.TP',
    [`\\fB${escaped(path)}\\fR`, ...words, ...(options.length > 0 ? ['[options]'] : [])].join(' '),
    inline(`${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`),
    ...(own.length + options.length === 0 ? [] : ['.RS']),
    ...own.flatMap(({ name, summary }) => term(`\\fI${escaped(name)}\\fR`, inline(summary))),
    ...options.flatMap(({ flags, summary, required }) =>
      term(`\\fB${escaped(flags)}\\fR`, inline(`${summary}${required ? ' (required)' : ''}`)),
    ),
    ...(own.length + options.length === 0 ? [] : ['.RE']),
    ...(example === path ? [] : ['.RS', '.PP', 'Example:', ...code([`stratumctl ${example}`]), '.RE']),
  ]
}

/** What an operator reads of the README: neither how it is tested nor how it is built. */
function daemon(readme: string, keys: ConfigKeys, areas: readonly string[]): string {
  const kept = readme.replace(/\n## Test it\n[\s\S]*?(?=\n## )/, '').replace(/\nHow the house is built:.*\n/, '\n')
  return page([
    ...head('stratumd', 8, 'agent that owns the networking of this node'),
    '.SH SYNOPSIS',
    '\\fBstratumd\\fR [\\fB\\-\\-quickstart\\fR]',
    ...body(kept),
    '.SH "CONFIGURATION KEYS"',
    'Set by \\fBstratumctl config set\\fR or in the panel\\(aqs file.',
    ...Object.entries(keys)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .flatMap(([key, { default: preset, summary, effective }]) => [
        ...term(`\\fB${escaped(key)}\\fR`, inline(`${summary}.`)),
        inline(
          `${preset === '' ? 'Empty' : `\`${preset}\``} unless set; ${effective === 'now' ? 'effective at once' : 'effective at restart'}.`,
        ),
      ]),
    ...seeAlso(['stratumctl(1)', ...areas.map((area) => `stratum-${area}(8)`)]),
  ])
}

function areaPage(area: string, readme: string): string {
  const [first = ''] = readme.replace(/^# .*\n+/, '').split(/(?<=\.)\s|\n\n/)
  const what = first.replaceAll('\n', ' ').replace(/\.$/, '')
  return page([...head(`stratum-${area}`, 8, what), ...body(readme), ...seeAlso(['stratumctl(1)', 'stratumd(8)'])])
}

if (import.meta.filename === process.argv[1]) {
  if (process.argv[2] === undefined) rmSync(OUT, { recursive: true, force: true })
  mkdirSync(OUT, { recursive: true })
  for (const [name, text] of await manual()) writeFileSync(join(OUT, name), text)
}
