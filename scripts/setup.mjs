/**
 * Installs what is missing and builds. Plain JavaScript on Node's own modules, because it runs before anything is there.
 *
 *   node scripts/setup.mjs          what running needs
 *   node scripts/setup.mjs --test   what the tests need as well
 *   node scripts/setup.mjs --bench  what the benches compare with as well
 *
 * As root on Debian it installs the packages of scripts/packages.txt; otherwise it says what is missing and goes on.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const forTests = process.argv.includes('--test')
/** Why packages are wanted. */
const uses = ['run', 'build', ...['test', 'bench'].filter((use) => process.argv.includes(`--${use}`))]
const say = (line) => process.stderr.write(`setup: ${line}\n`)

function run(command, args, environment = {}) {
  const { status, error } = spawnSync(command, args, {
    cwd: root,
    stdio: ['ignore', 2, 2],
    env: { ...process.env, ...environment },
  })
  if (error || status !== 0) {
    say(`failed: ${command} ${args.join(' ')}${error ? ` (${error.message})` : ''}`)
    process.exit(1)
  }
}

function checkNode() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  if (major > 20 || (major === 20 && minor >= 19)) return
  say(`Node ${process.versions.node} is too old: 20.19 or later is needed`)
  process.exit(1)
}

/** Names of the packages that are listed for what we are about to do and not installed. */
function missingPackages() {
  const wanted = readFileSync(join(root, 'scripts/packages.txt'), 'utf8')
    .split('\n')
    .filter((line) => /^[a-z]/.test(line))
    .map((line) => line.split(/\s+/))
    .filter(([, use]) => uses.includes(use))
    .map(([name]) => name)
  // biome-ignore lint/suspicious/noTemplateCurlyInString: dpkg-query's own placeholders
  const format = '${Package} ${db:Status-Status}\n'
  const { stdout } = spawnSync('dpkg-query', ['-W', '-f', format, ...wanted], {
    encoding: 'utf8',
  })
  const installed = new Set(
    (stdout ?? '').split('\n').flatMap((line) => (line.endsWith(' installed') ? [line.split(' ')[0]] : [])),
  )
  return wanted.filter((name) => !installed.has(name))
}

/** Services of packages that the agent runs by itself, on other terms: no start of the node may bring them either. */
const MASKED = { 'etcd-server': 'etcd.service' }

/** A masked service is not enabled by its package. Without systemd there is nothing to mask. */
function maskServices(packages) {
  for (const [name, service] of Object.entries(MASKED)) {
    if (!packages.includes(name) || !existsSync('/usr/bin/systemctl')) continue
    const { status } = spawnSync('systemctl', ['mask', service], { stdio: 'ignore' })
    if (status !== 0) say(`systemctl mask ${service} failed: see that it does not run`)
  }
}

/** No package may start a service of the distribution: while we install, the policy says no. */
function withoutServices(work) {
  const policy = '/usr/sbin/policy-rc.d'
  const ours = !existsSync(policy)
  if (ours) writeFileSync(policy, '#!/bin/sh\nexit 101\n', { mode: 0o755 })
  try {
    work()
  } finally {
    if (ours) rmSync(policy, { force: true })
  }
}

function installPackages() {
  if (!existsSync('/usr/bin/dpkg-query')) {
    say('not a Debian system: install what scripts/packages.txt lists by your own means')
    return
  }
  const missing = missingPackages()
  if (missing.length === 0) return
  if (process.getuid?.() !== 0) {
    say(`not root, so not installed: ${missing.join(' ')}`)
    return
  }
  say(`installing Debian packages: ${missing.join(' ')}`)
  maskServices(missing)
  const quiet = { DEBIAN_FRONTEND: 'noninteractive' }
  withoutServices(() => {
    run('apt-get', ['update', '-qq'], quiet)
    run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...missing], quiet)
  })
}

function installModules() {
  const marker = join(root, 'node_modules/.package-lock.json')
  const lock = join(root, 'package-lock.json')
  if (existsSync(marker) && statSync(marker).mtimeMs >= statSync(lock).mtimeMs) return
  say('installing node modules (npm ci); better-sqlite3 may be compiled, which takes a minute or two')
  run('npm', ['ci', '--no-audit', '--no-fund'])
}

checkNode()
installPackages()
installModules()
try {
  execFileSync('npm', ['run', '--silent', 'build'], { cwd: root, stdio: ['ignore', 2, 2] })
} catch {
  say('the build failed; the messages are above')
  process.exit(1)
}
// Fetched here, because tests use nothing beyond this machine.
if (forTests && process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')) {
  run(process.execPath, ['build/scripts/test-vm.js', '--fetch'])
}
