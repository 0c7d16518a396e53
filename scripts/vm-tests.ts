/**
 * What `npm run test:vm` runs in its machine when no command is given: the tests of what only that kernel has, one after
 * the other, and a summary. Ends with 1 when one of them failed.
 */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'

const BUILD = join(import.meta.dirname, '..')

const TESTS = [
  'test/kernel-features.test.js',
  'dataplane/netlink/test/driver-bond.test.js',
  'plugins/l2/test/bond.test.js',
  // Prints what it verified; no test file.
  'dataplane/bpf/test/verify.js',
]

const results = TESTS.map((file) => {
  process.stdout.write(`\n=== ${file}\n`)
  const since = performance.now()
  const { status, signal } = spawnSync(process.execPath, [join(BUILD, file)], { stdio: 'inherit' })
  return {
    file,
    passed: status === 0,
    outcome: signal ?? `status ${status}`,
    seconds: (performance.now() - since) / 1000,
  }
})

process.stdout.write('\n')
for (const { file, passed, outcome, seconds } of results) {
  process.stdout.write(`${passed ? 'passed' : `FAILED (${outcome})`} ${file} in ${seconds.toFixed(0)} s\n`)
}
process.exitCode = results.every(({ passed }) => passed) ? 0 : 1
