/**
 * `npm run test:nodes [-- --short] [-- --node VERSION]`: a sample of the tests on each version of Node that scripts/nodes.ts names,
 * of the build that is there. One folder of modules serves all, since what is native in it rests on Node-API;
 * only better-sqlite3 12 is compiled for Node 20 alone, which is done here where another Node installed it. Prints a table.
 * `--fetch` only gets what `npm test` needs of it.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { laneTable, type Row } from './lane-table.ts'
import { fetchNode, NODES, type NodeVersion } from './nodes.ts'
import { hasOldSqlite } from './package-tree.ts'
import { LONG, SHORT } from './sample.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const LOGS = join(ROOT, '.cache/nodes/logs')

function main(): void {
  const { values } = parseArgs({
    options: { short: { type: 'boolean' }, fetch: { type: 'boolean' }, node: { type: 'string' } },
  })
  const wanted = NODES.filter(
    ({ version, short, integrity }) =>
      integrity[process.arch] !== undefined &&
      (values.node === undefined
        ? (values.short !== true && values.fetch !== true) || short
        : version.startsWith(values.node)),
  )
  if (wanted.length === 0) throw new Error(`scripts/nodes.ts names no Node ${values.node ?? ''} for ${process.arch}`)
  if (values.fetch === true) {
    for (const node of wanted) prepare(node)
    return
  }
  const rows = wanted.flatMap((node) => onNode(node, values.short === true ? SHORT : [...SHORT, ...LONG]))
  process.stdout.write(laneTable(rows))
  if (rows.some(({ passed }) => !passed)) process.exitCode = 1
}

/** Brings that version. What to run it with, as environment. */
function prepare(node: NodeVersion): NodeJS.ProcessEnv {
  const folder = fetchNode(node)
  const env = {
    ...process.env,
    PATH: `${join(folder, 'bin')}:${process.env.PATH}`,
    // One that is configured for the machine's own Node would give the compiler the headers of that.
    npm_config_nodedir: folder,
    TAP_TIMEOUT: process.env.TAP_TIMEOUT ?? '300',
  }
  if (node.version.startsWith('20.') && !hasOldSqlite(ROOT)) {
    process.stderr.write(`compiling better-sqlite3 12 for Node ${node.version}\n`)
    execFileSync('npm', ['rebuild', 'better-sqlite3-12'], { cwd: ROOT, env, stdio: ['ignore', 2, 2] })
  }
  return env
}

function onNode(node: NodeVersion, tests: readonly string[]): Row[] {
  const env = prepare(node)
  mkdirSync(LOGS, { recursive: true })
  return tests.map((test) => {
    const began = Date.now()
    const options = { cwd: ROOT, env, encoding: 'utf8', maxBuffer: 64 << 20 } as const
    const { status, stdout, stderr } = spawnSync('node', [`build/${test}.test.js`], options)
    const passed = status === 0
    const log = join(LOGS, `${node.version}-${test.replaceAll('/', '-')}.log`)
    writeFileSync(log, `${stdout}\n${stderr}`)
    if (!passed) process.stderr.write(`Node ${node.version}: ${test} failed, see ${log}\n`)
    return { place: node.version, test, seconds: (Date.now() - began) / 1000, passed }
  })
}

main()
