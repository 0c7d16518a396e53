/**
 * Installs what is missing and builds. Plain JavaScript on Node's own modules, because it runs before anything is there.
 *
 *   node scripts/setup.mjs          what running needs
 *   node scripts/setup.mjs --test   what the tests need as well
 *   node scripts/setup.mjs --bench  what the benches compare with as well
 *
 * As root on Debian it installs the packages of scripts/packages.txt; otherwise it says what is missing and goes on.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, lstatSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const forTests = process.argv.includes('--test')
/** Why packages are wanted. */
const uses = ['run', 'build', ...['test', 'bench'].filter((use) => process.argv.includes(`--${use}`))]
const say = (line) => process.stderr.write(`setup: ${line}\n`)

/** What we wait for. Whoever ends us ends that first, so that what is to be put back is put back. */
let running
let interrupted = false
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => {
    interrupted = true
    running?.kill(signal)
  })
}

async function run(command, args, environment = {}) {
  running = spawn(command, args, { cwd: root, stdio: ['ignore', 2, 2], env: { ...process.env, ...environment } })
  // Rejects when it cannot be started.
  const [status] = await once(running, 'close')
  if (interrupted) throw new Error('interrupted')
  if (status !== 0) throw new Error(`failed: ${command} ${args.join(' ')}`)
}

/** On a Node that `engines` does not allow SQLite may end the agent by a fault (core/state/sqlite.ts). */
function checkNode() {
  const lines = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).engines.node.split(' || ')
  const [major, minor] = process.versions.node.split('.').map(Number)
  const fits = lines.some((line) => {
    const [least, from] = line.slice(1).split('.').map(Number)
    return major === least && minor >= from
  })
  if (fits) return
  const wanted = lines.map((line) => line.slice(1).replace(/\.0$/, '')).join(', ')
  // Debian 12's npm, which brings Node 18, can fetch another.
  throw new Error(
    `Node ${process.versions.node} is not one that the agent runs on (${wanted} or later of each line): as root npm install --global node@24; hash -r; others: see README.md`,
  )
}

/** Names of the packages that are listed for what we are about to do and not installed. */
function missingPackages() {
  // Debian's testing has no number: it is later than all that have.
  const release = Number(/^VERSION_ID="?(\d+)/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1] ?? Infinity)
  const wanted = readFileSync(join(root, 'scripts/packages.txt'), 'utf8')
    .split('\n')
    .map((line) => /^([a-z]\S*)\s+(\S+)\s+(?:from Debian (\d+):)?/.exec(line) ?? [])
    .filter(([, , use, since]) => uses.includes(use) && release >= Number(since ?? 0))
    .map(([, name]) => name)
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

/** Services that Debian enables with their package. We want the programs: no start of the machine may bring the services. */
const SERVICES = {
  bird2: 'bird',
  'etcd-server': 'etcd',
  frr: 'frr',
  gobgpd: 'gobgpd',
  haproxy: 'haproxy',
  knot: 'knot',
  'nginx-light': 'nginx',
  prometheus: 'prometheus',
  unbound: 'unbound',
}

/**
 * Masks those of packages that we are about to install, by the link that `systemctl mask` makes: systemd itself may come with
 * the same packages, or later. What somebody has put there stays.
 */
function maskServices(packages) {
  const units = '/etc/systemd/system'
  const masked = packages.flatMap((name) => SERVICES[name] ?? []).map((name) => `${name}.service`)
  mkdirSync(units, { recursive: true })
  for (const unit of masked) {
    if (lstatSync(join(units, unit), { throwIfNoEntry: false }) === undefined)
      symlinkSync('/dev/null', join(units, unit))
  }
  if (masked.length > 0) say(`masked, so that they never start by themselves (systemctl unmask): ${masked.join(' ')}`)
}

const POLICY = '/usr/sbin/policy-rc.d'
/** By which a later run knows a policy that an earlier one could not take back. */
const MARK = '# Made by setup of stratum-node while it installs packages; remove it if none runs.'

/** No package may start a service of the distribution: while we install, the policy says no. */
async function withoutServices(work) {
  const ours = !existsSync(POLICY) || readFileSync(POLICY, 'utf8').includes(MARK)
  if (ours) writeFileSync(POLICY, `#!/bin/sh\n${MARK}\nexit 101\n`, { mode: 0o755 })
  try {
    await work()
  } finally {
    if (ours) rmSync(POLICY, { force: true })
  }
}

async function installPackages() {
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
  say(`installing Debian packages, which may take some minutes: ${missing.join(' ')}`)
  maskServices(missing)
  const quiet = { DEBIAN_FRONTEND: 'noninteractive' }
  await withoutServices(async () => {
    await run('apt-get', ['update', '-qq'], quiet)
    await run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...missing], quiet)
  })
}

async function installModules() {
  const marker = join(root, 'node_modules/.package-lock.json')
  const lock = join(root, 'package-lock.json')
  if (existsSync(marker) && statSync(marker).mtimeMs >= statSync(lock).mtimeMs) return
  const forNode20 = process.versions.node.startsWith('20.')
  say(`installing node modules (npm ci)${forNode20 ? '; SQLite may be compiled, which takes a minute or two' : ''}`)
  // What other modules would compile or fetch is for Node 20 only.
  await run('npm', ['ci', '--no-audit', '--no-fund', ...(forNode20 ? [] : ['--ignore-scripts'])])
  if (!forNode20) await run('npm', ['run', '--silent', 'prepare'])
  else if (!existsSync(join(root, 'node_modules/better-sqlite3-12/build/Release/better_sqlite3.node'))) {
    rmSync(marker, { force: true })
    throw new Error('SQLite for Node 20 could not be compiled: install g++, make and python3, then run this again')
  }
}

try {
  checkNode()
  await installPackages()
  await installModules()
  say('building')
  await run('npm', ['run', '--silent', 'build'])
  // Fetched here, because tests use nothing beyond this machine.
  if (forTests && process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')) {
    await run(process.execPath, ['build/scripts/test-vm.js', '--fetch'])
    await run(process.execPath, ['build/scripts/test-nodes.js', '--fetch'])
  }
} catch (error) {
  say(error.message)
  process.exitCode = 1
}
