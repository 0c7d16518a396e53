/** Another zebra in the network namespace. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import '../../../test/inside.ts'
import { remedyFor } from '../../../core/remedies.ts'
import { scratch } from '../../../test/build.ts'
import { whyNoBgp } from '../../../test/frr.ts'
import { netns, requireRoot, type Scope } from '../../../test/netns.ts'
import { takesKeys } from '../md5.ts'
import { DAEMONS, type Daemon, endDaemon, otherZebra, startDaemon, whyNoFrr } from '../session.ts'
import { openUpkeep } from '../upkeep.ts'
import type { Vty } from '../vty.ts'

if (!requireRoot(t)) process.exit()

/** Resolves when the program has its name. */
async function calledZebra({ pid }: ChildProcess): Promise<void> {
  while (!readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith('/usr/lib/frr/zebra')) await wait(5)
}

t.test('beside another zebra none of ours is started', async (t) => {
  const places = { binDir: '/usr/lib/frr', runDir: join(scratch(t), 'frr') }
  const elsewhere = netns(t, 'z').spawn('bash', ['-c', 'exec -a /usr/lib/frr/zebra sleep 600'], { stdio: 'ignore' })
  t.teardown(() => elsewhere.kill('SIGKILL'))
  await calledZebra(elsewhere)
  t.equal(await otherZebra(places), undefined, 'in other namespaces there may be others')
  const ours = spawn('bash', ['-c', 'read', places.runDir], { argv0: '/usr/lib/frr/zebra', stdio: 'pipe' })
  await calledZebra(ours)
  t.equal(await otherZebra(places), undefined, 'ours is no other')
  ours.kill('SIGKILL')
  const other = spawn('sleep', ['600'], { argv0: '/usr/lib/frr/zebra', stdio: 'ignore' })
  await calledZebra(other)
  t.equal(await otherZebra(places), other.pid)
  await t.rejects(
    startDaemon(places, 'zebra'),
    new RegExp(`^another zebra \\(pid ${other.pid}\\) runs here .*: systemctl disable --now frr$`),
  )
  t.notOk(existsSync(places.runDir), 'and nothing has been done')
  const upkeep = openUpkeep({ places, inTurn: (work) => work(), daemon: () => ({}) as Vty })
  t.teardown(() => upkeep.close())
  while (upkeep.troubles().length === 0) await wait(50)
  t.match(upkeep.troubles(), [{ reason: `another zebra (pid ${other.pid}) runs beside this node's own` }])
  other.kill('SIGKILL')
  await once(other, 'exit')
  t.equal(await otherZebra(places), undefined)
  while (upkeep.troubles().length > 0) await wait(50)
})

t.test('a run directory that the daemons cannot reach is a reason not to begin', { skip: whyNoBgp() }, async (t) => {
  const top = scratch(t)
  const places = { binDir: '/usr/lib/frr', runDir: join(top, 'run', 'frr') }
  mkdirSync(join(top, 'run'))
  chmodSync(top, 0o711)
  t.equal(await whyNoFrr(places), undefined, 'the agent opens its own directory by itself')
  chmodSync(top, 0o700)
  const why = await whyNoFrr(places)
  t.match(why, `chmod o+x ${top}, or have the run directory elsewhere`)
  t.match(remedyFor('bgp', why ?? ''), /^chmod o\+x .* STRATUM_RUN_DIR/, 'which no package mends')
})

/** FRR's programs, of which one is a script that may call the real one as $REAL. */
function placesWith(t: Scope, name: Daemon, script: string) {
  const dir = scratch(t)
  chmodSync(dir, 0o711)
  mkdirSync(join(dir, 'bin'))
  const real = `/usr/lib/frr/${name}`
  writeFileSync(join(dir, 'bin', name), `#!/bin/sh\nREAL=${real}\n${script}\n`, { mode: 0o755 })
  const places = { binDir: join(dir, 'bin'), runDir: join(dir, 'frr') }
  t.teardown(() => endDaemon(places, name))
  return places
}

t.test(
  'a daemon that keeps what it was given to speak to, as FRR 10 does, has started',
  { skip: whyNoBgp() },
  async (t) => {
    const places = placesWith(t, 'bgpd', 'sleep 30 &\nexec $REAL "$@"')
    const since = performance.now()
    const vty = await startDaemon(places, 'bgpd')
    t.ok(performance.now() - since < 14_000, 'before anybody loses patience')
    vty.close()
  },
)

t.test('programs that do not run, or do not know what they will be told, are a reason not to begin', async (t) => {
  const top = scratch(t)
  chmodSync(top, 0o711)
  const [binDir, runDir] = [join(top, 'bin'), join(top, 'run', 'frr')]
  mkdirSync(binDir)
  mkdirSync(join(top, 'run'))
  const become = (name: Daemon, script: string) =>
    writeFileSync(join(binDir, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  for (const name of DAEMONS) become(name, `exec /usr/lib/frr/${name} "$@"`)
  t.equal(await whyNoFrr({ binDir, runDir }), undefined)
  become('bfdd', 'echo "libfrr.so.0: cannot open shared object file" >&2; exit 127')
  const broken = await whyNoFrr({ binDir, runDir })
  t.equal(broken, `${binDir}/bfdd does not run: libfrr.so.0: cannot open shared object file`)
  t.match(remedyFor('bgp', broken ?? ''), '--reinstall frr')
  become('bfdd', '/usr/lib/frr/bfdd "$@" | sed s/--vty_socket/--vty_gone/')
  const other = await whyNoFrr({ binDir, runDir })
  t.match(other, `${binDir}/bfdd knows no --vty_socket: `)
  t.match(remedyFor('bgp', other ?? ''), "Debian's own release")
})

t.test('bfdd gets the options that it has', { skip: whyNoBgp() }, async (t) => {
  const places = placesWith(
    t,
    'bfdd',
    'case "$*" in\n--help) echo none;;\n*--bfdctl*) echo "unrecognized option" >&2; exit 1;;\n*) $REAL --help | grep -q bfdctl && set -- "$@" --bfdctl $(dirname $0)/../frr/bfdd.sock; exec $REAL "$@";;\nesac',
  )
  const vty = await startDaemon(places, 'bfdd')
  vty.close()
})

t.test('of a daemon that cannot be started its last words are told', async (t) => {
  const places = placesWith(t, 'bgpd', 'echo first >&2\necho last words >&2\nexit 1')
  await t.rejects(startDaemon(places, 'bgpd'), /^bgpd cannot be started: last words$/)
  await t.rejects(
    startDaemon(placesWith(t, 'bgpd', 'kill -9 $$'), 'bgpd'),
    /^bgpd cannot be started: it ended by SIGKILL$/,
  )
})

t.test('D77 whether the kernel takes keys is asked of it', async (t) => {
  // That of the tests does.
  t.equal(takesKeys(), true)
})
