/** The manual as `npm run man` makes it, judged by the programs that show it. */
import { spawnSync } from 'node:child_process'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { allVerbs } from '../core/cli/table.ts'
import { CORE_KEYS } from '../core/keys.ts'
import { body, inline } from '../scripts/man/roff.ts'
import { manual } from '../scripts/man.ts'
import { scratch } from './build.ts'
import { requireProgram } from './required.ts'

const pages = await manual()

t.test('there is a page of each program and each area, and it tells all', async (t) => {
  const areas = readdirSync(join(import.meta.dirname, '../../plugins'))
  t.same([...pages.keys()].sort(), ['stratumctl.1', 'stratumd.8', ...areas.map((area) => `stratum-${area}.8`)].sort())
  const commands = pages.get('stratumctl.1') ?? ''
  const plain = commands.replaceAll('\\-', '-')
  for (const { path } of await allVerbs()) t.ok(plain.includes(`\n\\fB${path}\\fR`), path)
  for (const key of Object.keys(CORE_KEYS)) t.ok(pages.get('stratumd.8')?.includes(`\\fB${key}\\fR`), key)
})

const dir = scratch(t, 'man')
for (const [name, text] of pages) writeFileSync(join(dir, name), text)

for (const [judge, ...args] of [
  ['mandoc', '-Tlint', '-Wwarning'],
  ['groff', '-man', '-ww', '-z', '-Tutf8'],
  // As `man -l --warnings` has it formatted.
  ['groff', '-mandoc', '-t', '-ww', '-z', '-Tascii'],
] as const) {
  t.test(`${judge} ${args[0]} has nothing to say about it`, async (t) => {
    if (!requireProgram(t, judge)) return
    const files = [...pages.keys()].map((name) => join(dir, name))
    const { stdout, stderr } = spawnSync(judge, [...args, ...files], { encoding: 'utf8' })
    // A date would make two builds of the same source differ.
    const said = `${stdout}${stderr}`.split('\n').filter((line) => line !== '' && !line.includes('missing date'))
    t.same(said, [])
  })
}

t.test('a command and what it does stand below each other', async (t) => {
  if (!requireProgram(t, 'mandoc')) return
  const { stdout } = spawnSync('mandoc', ['-Tascii', join(dir, 'stratumctl.1')], { encoding: 'utf8' })
  // biome-ignore lint/suspicious/noControlCharactersInRegex: overstrikes of bold and underlined text
  t.match(stdout.replaceAll(/.\x08/g, ''), /rules trace \[options\]\n +Say what becomes/)
})

t.test('no line of a README can be a request of roff', async (t) => {
  const lines = body(
    ".TH evil\n\n`.so /etc/passwd`\n\n```\n.so x\n'br\n```\n\n- .x\n- \\fBbold\n\n| .a | b |\n|--|--|\n| .c | \\*(d |\n",
  )
  t.same(
    lines.filter((line) => /^['.]/.test(line) && !/^\.(PP|RS|nf|fi|RE|IP|TP|SH)\b/.test(line)),
    [],
  )
  t.equal(inline('`a-b` *c* **d** [e](f) \\n'), '\\fBa\\-b\\fR \\fIc\\fR \\fBd\\fR e \\en')
})
