/** The programs run from their bundles, with what was compiled before, and never from one that is not theirs. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { scratch } from '../../test/build.ts'
import { openBundle } from '../bundled.ts'

const BUILD = join(import.meta.dirname, '..', '..')
const DIGEST = 'a'.repeat(64)

/** The folder of a bundle that exports `answer`, made of one module. */
function bundleOf(t: Test, answer: string, digest = DIGEST): string {
  const root = scratch(t, 'bundle')
  mkdirSync(join(root, 'bundle'))
  mkdirSync(join(root, 'core'))
  writeFileSync(join(root, 'core/module.js'), '')
  writeFileSync(join(root, 'bundle/ctl.js.modules'), 'core/module.js\n')
  writeFileSync(join(root, 'bundle/ctl.js'), `exports.answer = () => ${answer}\n//${digest}\n`)
  return join(root, 'bundle')
}
const answerOf = (folder: string) => (openBundle('ctl', folder)?.run() as { answer(): unknown } | undefined)?.answer()

t.test('this build has a bundle of both programs, compiled for this Node', async (t) => {
  for (const program of ['agent', 'ctl'] as const) t.equal(openBundle(program)?.precompiled, true, program)
})

t.test('both programs load their bundle in place of the modules', async (t) => {
  for (const [main, bundle] of [
    ['core/main.js', 'agent.js'],
    ['core/cli/main.js', 'ctl.js'],
  ] as const) {
    const told = scratch(t, 'coverage')
    // Not what the test runner puts into every Node process by NODE_OPTIONS, which has another process tell what it saw.
    const bare = ['--unset=NODE_OPTIONS', `NODE_V8_COVERAGE=${told}`, process.execPath]
    t.equal(spawnSync('env', [...bare, join(BUILD, main), '--version']).status, 0)
    const [file = ''] = readdirSync(told)
    const { result }: { result: { url: string }[] } = JSON.parse(readFileSync(join(told, file), 'utf8'))
    const own = result.map(({ url }) => url.replace(/^(file:\/\/)?/, '')).filter((url) => url.startsWith(`${BUILD}/`))
    t.ok(own.includes(join(BUILD, 'bundle', bundle)), `${main} runs ${bundle}`)
    t.notOk(own.includes(join(BUILD, 'core/version.js')), 'and no module that is in it')
  }
})

t.test('a module that is newer than the bundle runs itself', async (t) => {
  const folder = bundleOf(t, '1')
  t.equal(answerOf(folder), 1)
  const later = Date.now() / 1000 + 60
  utimesSync(join(folder, '../core/module.js'), later, later)
  t.equal(openBundle('ctl', folder), undefined)
})

t.test('what was compiled of another bundle, or is broken, is not used', async (t) => {
  const former = bundleOf(t, '1')
  const cache = openBundle('ctl', former)?.compiled() ?? Buffer.alloc(0)
  // As long as the true one, so that V8 itself would take what follows.
  const ofAnotherNode = Buffer.from(
    cache
      .toString('latin1')
      .replaceAll(DIGEST, 'b'.repeat(64))
      .replace(process.versions.node, (version) => version.replace(/\d/g, '0')),
    'latin1',
  )
  const broken = Buffer.concat([Buffer.from('b'.repeat(64)), cache.subarray(64, cache.indexOf('\n') + 1)])
  const tries = {
    'of another bundle': cache,
    'of another Node': ofAnotherNode,
    broken: Buffer.concat([broken, Buffer.from('nonsense')]),
    empty: Buffer.alloc(0),
  }
  for (const [what, content] of Object.entries(tries)) {
    // Each in a folder of its own: V8 remembers what it has compiled in this process.
    const folder = bundleOf(t, '2', 'b'.repeat(64))
    writeFileSync(join(folder, 'ctl.cache'), content)
    t.equal(openBundle('ctl', folder)?.precompiled, false, what)
    t.equal(answerOf(folder), 2, what)
  }
  writeFileSync(join(former, 'ctl.cache'), cache)
  t.equal(openBundle('ctl', former)?.precompiled, true)
  t.equal(answerOf(former), 1)
})

t.test('where there is no bundle, nothing is told', async (t) => {
  t.equal(openBundle('ctl', scratch(t, 'empty')), undefined)
})
