/** `scripts/setup.mjs`, with programs in place of those that would change this machine, in a mount namespace of its own. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { scratch } from '../build.ts'
import { eventually } from '../cluster.ts'
import { requireRoot, type Scope } from '../netns.ts'

requireRoot(t)
const SETUP = join(import.meta.dirname, '..', '..', '..', 'scripts', 'setup.mjs')

/** Starts it where `apt-get` is `apt` (a shell script), nothing is installed, and /usr/sbin and /etc/systemd hold nothing. */
function setup(t: Scope, apt: string, release = '12') {
  const dir = scratch(t)
  const [programs, sbin, units] = [join(dir, 'bin'), join(dir, 'sbin'), join(dir, 'systemd/system')]
  for (const folder of [programs, sbin, units]) mkdirSync(folder, { recursive: true })
  const contents = { 'apt-get': apt, 'dpkg-query': 'exit 0', npm: 'exit 0' }
  for (const [name, script] of Object.entries(contents)) {
    writeFileSync(join(programs, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  }
  const os = join(dir, 'os-release')
  writeFileSync(os, `ID=debian\nVERSION_ID="${release}"\n`)
  const policy = join(sbin, 'policy-rc.d')
  const inside =
    'mount --bind "$1" /usr/sbin && mount --bind "$2" /etc/systemd && mount --bind "$3" /etc/os-release && shift 3 && PATH="$1:$PATH" exec "$2" "$3" $4'
  const start = (option = '') =>
    spawn(
      'unshare',
      ['-m', 'sh', '-c', inside, 'sh', sbin, join(dir, 'systemd'), os, programs, process.execPath, SETUP, option],
      { stdio: 'ignore' },
    )
  return { policy, units, start, marker: join(programs, 'started') }
}

t.test('no policy against services stays when a package cannot be installed', async (t) => {
  const { policy, start } = setup(t, 'exit 1')
  t.same(await once(start(), 'close'), [1, null])
  t.notOk(existsSync(policy))
})

t.test('nor when it is interrupted', async (t) => {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    const { policy, start, marker } = setup(t, `touch "\${0%/*}/started"; exec sleep 60`)
    const child = start()
    await eventually('packages are being installed', async () => existsSync(marker))
    t.match(readFileSync(policy, 'utf8'), /exit 101/)
    child.kill(signal)
    t.same(await once(child, 'close'), [1, null], signal)
    t.notOk(existsSync(policy))
  }
})

t.test('what a killed one left is taken back by the next; that of somebody else stays', async (t) => {
  const { policy, start, marker } = setup(t, `touch "\${0%/*}/started"; until [ -e "\${0%/*}/go" ]; do sleep 0.1; done`)
  const killed = start()
  await eventually('packages are being installed', async () => existsSync(marker))
  killed.kill('SIGKILL')
  await once(killed, 'exit')
  t.ok(existsSync(policy))
  writeFileSync(join(marker, '..', 'go'), '')
  t.same(await once(start(), 'close'), [0, null])
  t.notOk(existsSync(policy))
  writeFileSync(policy, '#!/bin/sh\nexit 0\n')
  t.same(await once(start(), 'close'), [0, null])
  t.equal(readFileSync(policy, 'utf8'), '#!/bin/sh\nexit 0\n')
})

t.test("Debian's own daemons are masked before they are unpacked, and what somebody has put there stays", async (t) => {
  const { units, start } = setup(t, '[ -L /etc/systemd/system/etcd.service ] && [ -L /etc/systemd/system/frr.service ]')
  symlinkSync('/lib/systemd/system/other.service', join(units, 'frr.service'))
  t.same(await once(start(), 'close'), [0, null])
  t.same(readdirSync(units).sort(), ['etcd.service', 'frr.service'])
  t.equal(readlinkSync(join(units, 'etcd.service')), '/dev/null')
  t.equal(readlinkSync(join(units, 'frr.service')), '/lib/systemd/system/other.service')
  t.same(await once(start('--bench'), 'close'), [0, null])
  const masked = ['etcd.service', 'frr.service', 'haproxy.service', 'knot.service', 'nginx.service']
  t.same(readdirSync(units).sort(), masked, 'those of the benches only with the benches')
})

t.test('a package that only later releases of Debian have is asked for there alone', async (t) => {
  for (const release of ['12', '13', '14']) {
    // It ends with the installation, before what comes after it for tests.
    const apt = `[ "$1" = update ] || { case "$*" in *virtiofsd*) touch "\${0%/*}/started" ;; esac; exit 1; }`
    const { start, marker } = setup(t, apt, release)
    t.same(await once(start('--test'), 'close'), [1, null])
    t.equal(existsSync(marker), release !== '12', `Debian ${release}`)
  }
})
