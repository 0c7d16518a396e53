/**
 * What `npm run test:vm` runs in its machine when no command is given: the tests of what only that kernel has, one after
 * the other, and a summary. Ends with 1 when one of them failed. `node build/scripts/vm-tests.js all` runs the slow ones too;
 * names of files below build run those, and `--modules` before them loads what a plain machine has not loaded.
 */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'

const BUILD = join(import.meta.dirname, '..')

const TESTS = [
  'test/kernel-features.test.js',
  'dataplane/netlink/test/driver-bond.test.js',
  'plugins/l2/test/bond.test.js',
  'plugins/bandwidth/test/clsact.test.js',
  // Prints what it verified; no test file.
  'dataplane/bpf/test/verify.js',
]
/** They take minutes each under emulation, and run with both forms of attaching on the kernel outside as well. */
const SLOW = [
  'dataplane/bpf/attach/test/attachments.test.js',
  'dataplane/bpf/port/test/shut.test.js',
  // Last: what it needs (MODULES) a plain machine has not loaded, and the tests before it are to see such a one.
  'dataplane/bpf/port/test/frames.test.js',
]
const MODULES: Readonly<Record<string, string>> = { 'dataplane/bpf/port/test/frames.test.js': 'br_netfilter' }

/** What rigs take for granted, as kernels that have it built in allow. */
const USUAL = ['nf_conntrack', 'tun', 'br_netfilter']

function wanted([first, ...more]: readonly string[]): readonly string[] {
  if (first === undefined || first === 'all') return [...TESTS, ...(first === 'all' ? SLOW : [])]
  if (first !== '--modules') return [first, ...more]
  spawnSync('modprobe', ['-a', ...USUAL], { stdio: 'inherit' })
  return more
}

const results = wanted(process.argv.slice(2)).map((file) => {
  process.stdout.write(`\n=== ${file}\n`)
  const module = MODULES[file]
  if (module !== undefined) spawnSync('modprobe', [module], { stdio: 'inherit' })
  const since = performance.now()
  // Where packages are tried has a run directory of its own, in which the usual place of this machine would not be seen.
  const env = { ...process.env, ...(file.startsWith('test/package/') ? { TMPDIR: '/var/tmp' } : {}) }
  const { status, signal } = spawnSync(process.execPath, [join(BUILD, file)], { stdio: 'inherit', env })
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
