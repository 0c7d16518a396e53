/**
 * `npm run test:userland [-- --short] [-- --node debian|22] [-- --test PATH]`: a sample of the tests, and the package from its
 * installation to its removal, in Debian 13's userland on this machine's kernel: with Debian's own Node, and with the newest
 * Node 22 in its place. Takes the build that is there. Prints a table; ends with 77 where there can be no such userland.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { laneTable, type Row } from './lane-table.ts'
import { fetchNode, NODES } from './nodes.ts'
import { LONG, SHORT } from './sample.ts'
import { inside, userland, whyNone } from './userland.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const LOGS = join(ROOT, '.cache/userland/logs')
const SKIPPED = 77

const PLATFORM = 'test/package/platform'
/** What rests on the distribution's libraries, programs and compilers. */
const DISTRIBUTION = [
  'test/package/install',
  'test/package/life',
  'dataplane/bpf/test/bpffs',
  'dataplane/frr/test/bgpd',
  'dataplane/frr/test/follow',
  'plugins/bgp/test/policy',
  'plugins/bgp/test/speakers',
  'plugins/firewall/test/kernel-property',
  'plugins/firewall/test/packets-order.nft',
]
/** Not a test: compiles all as Debian 13's compilers do, and shows the programs to the kernel. */
const BUILD = 'build with its compilers'
const BUILDING = `rm build/dataplane/bpf/src/*.bpf.o && node node_modules/typescript/bin/tsc &&
node build/scripts/build.js && node build/dataplane/bpf/test/verify.js`

interface Place {
  name: string
  /** Program that takes the place of Debian's. */
  node: string | undefined
}

function main(): void {
  const { values } = parseArgs({
    options: { short: { type: 'boolean' }, node: { type: 'string' }, test: { type: 'string', multiple: true } },
  })
  const why = whyNone()
  if (why !== undefined) {
    process.stderr.write(`test-userland: skipped, ${why}\n`)
    process.exitCode = SKIPPED
    return
  }
  const sample = values.short === true ? [PLATFORM, ...SHORT] : [BUILD, PLATFORM, ...SHORT, ...LONG, ...DISTRIBUTION]
  const tests = values.test ?? sample
  const root = userland()
  // Tests of SQLite open a store with these.
  for (const node of NODES.filter(({ short, integrity }) => short && integrity[process.arch])) fetchNode(node)
  mkdirSync(LOGS, { recursive: true })
  const rows = places(values.node).flatMap((place) => tests.map((test) => tried(root, place, test)))
  process.stdout.write(laneTable(rows))
  if (rows.some(({ passed }) => !passed)) process.exitCode = 1
}

function places(wanted: string | undefined): Place[] {
  const newest = NODES.filter(({ version }) => version.startsWith('22.')).at(-1)
  if (newest === undefined) throw new Error('scripts/nodes.ts names no Node 22')
  const debian = { name: "Debian's Node", node: undefined }
  const other = () => ({ name: `Node ${newest.version}`, node: join(fetchNode(newest), 'bin/node') })
  if (wanted === undefined) return [debian, other()]
  if (wanted !== 'debian' && wanted !== '22') throw new Error(`--node ${wanted}: debian or 22`)
  return [wanted === 'debian' ? debian : other()]
}

function tried(root: string, { name, node }: Place, test: string): Row {
  const began = performance.now()
  const command = test === BUILD ? ['sh', '-c', BUILDING] : ['node', `build/${test}.test.js`]
  const { status, out } = inside(root, node, command)
  const seconds = (performance.now() - began) / 1000
  const log = join(LOGS, `${name} ${test}`.replaceAll(/\W+/g, '-').concat('.log'))
  writeFileSync(log, out)
  const passed = status === 0
  process.stderr.write(`${name}: ${test} ${passed ? `in ${seconds.toFixed(0)} s` : `FAILED, see ${log}`}\n`)
  return { place: name, test, seconds, passed }
}

main()
