/** README.md says of platforms what the lanes try, and no more. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { LINES } from '../scripts/kernels.ts'
import { NODES, nodeLines } from '../scripts/nodes.ts'
import { TIERS } from '../scripts/tiers.ts'
import { RELEASE } from '../scripts/userland.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const text = readFileSync(join(ROOT, 'README.md'), 'utf8')

/** Rows of the table whose first heading is `heading`, by cells. @throws Error when README.md has none */
function table(heading: string): string[][] {
  const [, body] = new RegExp(`^\\| ${heading} \\|.*\\n\\|[-|]+\\|\\n((?:\\|.*\\n)+)`, 'm').exec(text) ?? []
  if (body === undefined) throw new Error(`README.md has no table of ${heading}`)
  const rows = body.trimEnd().split('\n')
  return rows.map((row) => row.slice(2, -2).split(' | '))
}

t.test('Node: the lines that package.json allows, each with what the lane tries', async (t) => {
  const { engines } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const lines = nodeLines(engines.node).map(({ least, beyond }) => {
    const tried = NODES.map(({ version }) => version).filter((version) => version.startsWith(`${beyond - 1}.`))
    return [String(beyond - 1), least, tried.join(', ')]
  })
  t.same(table('Node'), lines)
})

t.test('kernels: the lines of the lane, and of its tiers none that it does not run there', async (t) => {
  const rows = table('Linux')
  t.same(
    rows.map(([name, from]) => [name, from]),
    LINES.map(({ name, suites }) => [name, suites.join(', ')]),
  )
  for (const [index, [name = '', , tried = '', passed = '']] of rows.entries()) {
    t.match(tried, LINES[index]?.versions, `${tried} is of line ${name}`)
    for (const tier of passed.split(', ')) t.ok(TIERS[tier]?.kernels.includes(name), `${tier} runs on ${name}`)
  }
  for (const name of Object.values(TIERS).flatMap(({ kernels }) => kernels))
    t.ok(
      LINES.some((line) => line.name === name),
      `kernel ${name} of a tier can be fetched`,
    )
})

t.test('Debian: the release of the lane, with its Nodes', async (t) => {
  const [own = [], other = [], ...more] = table('Debian')
  t.match(own, [RELEASE, /^its own \(\d+\.\d+\.\d+\)$/])
  const newest = NODES.filter(({ version }) => version.startsWith('22.')).at(-1)
  t.match(other, [RELEASE, newest?.version])
  t.same(more, [])
})
