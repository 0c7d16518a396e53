/**
 * `npm run acceptance`: which statements of the acceptance list are named in test titles, per area.
 * The list is given as a file of lines `id: statement` (default ../shared/spec/acceptance.md).
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const [list = '../shared/spec/acceptance.md'] = process.argv.slice(2)

function idsIn(text: string, pattern: RegExp): Set<string> {
  return new Set(Array.from(text.matchAll(pattern), ([, id = '']) => id))
}

function testTitles(): string {
  const files = ['core', 'plugins', 'dataplane', 'scripts', 'test'].flatMap((folder) =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && entry.name.endsWith('.test.ts'))
      .map((entry) => join(entry.parentPath, entry.name)),
  )
  return files.map((file) => readFileSync(file, 'utf8')).join('\n')
}

if (!existsSync(list)) {
  process.stderr.write(`acceptance: there is no list at ${list}; give its path as argument\n`)
  process.exit(2)
}
const wanted = idsIn(readFileSync(list, 'utf8'), /^([a-z]+-\d{2}):/gm)
const named = idsIn(testTitles(), /\b([a-z]+-\d{2})\b/g)
const areas = new Map<string, { proved: number; unproved: string[] }>()
for (const id of wanted) {
  const [area = '', number = ''] = id.split('-')
  const row = areas.get(area) ?? { proved: 0, unproved: [] }
  areas.set(area, row)
  if (named.has(id)) row.proved++
  else row.unproved.push(number)
}
for (const [area, { proved, unproved }] of areas) {
  const rest = unproved.length === 0 ? '' : `  not yet: ${unproved.join(' ')}`
  process.stdout.write(`${area.padEnd(9)} ${String(proved).padStart(3)} of ${proved + unproved.length}${rest}\n`)
}
