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

const pages = await manual()

t.test('there is a page of each program and each area, and it tells all', async (t) => {
  const areas = readdirSync(join(import.meta.dirname, '../../plugins'))
  t.same([...pages.keys()].sort(), ['stratumctl.1', 'stratumd.8', ...areas.map((area) => `stratum-${area}.8`)].sort())
  const commands = pages.get('stratumctl.1') ?? ''
  const plain = commands.replaceAll('\\-', '-')
  for (const { path } of await allVerbs()) t.ok(plain.includes(`\n\\fB${path}\\fR`), path)
  for (const key of Object.keys(CORE_KEYS)) t.ok(pages.get('stratumd.8')?.includes(`\\fB${key}\\fR`), key)
})

t.test('nobody has anything to say about it', async (t) => {
  const dir = scratch(t, 'man')
  for (const [name, text] of pages) writeFileSync(join(dir, name), text)
  const files = [...pages.keys()].map((name) => join(dir, name))
  const judges: [string, string[]][] = [
    ['mandoc', ['-Tlint', '-Wwarning']],
    ['groff', ['-man', '-ww', '-z', '-Tutf8']],
    // As `man -l --warnings` has it formatted.
    ['groff', ['-mandoc', '-t', '-ww', '-z', '-Tascii']],
  ]
  for (const [judge, args] of judges) {
    const { error, stdout, stderr } = spawnSync(judge, [...args, ...files], { encoding: 'utf8' })
    if (error !== undefined) {
      t.match(error, { code: 'ENOENT' })
      t.comment(`skipped: ${judge} is not installed`)
      continue
    }
    // A date would make two builds of the same source differ.
    const said = `${stdout}${stderr}`.split('\n').filter((line) => line !== '' && !line.includes('missing date'))
    t.same(said, [], judge)
  }
  const { error, stdout } = spawnSync('mandoc', ['-Tascii', join(dir, 'stratumctl.1')], { encoding: 'utf8' })
  // biome-ignore lint/suspicious/noControlCharactersInRegex: overstrikes of bold and underlined text
  if (error === undefined) t.match(stdout.replaceAll(/.\x08/g, ''), /rules trace \[options\]\n +Say what becomes/)
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
