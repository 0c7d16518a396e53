/** Another zebra in the network namespace. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import '../../../test/inside.ts'
import { scratch } from '../../../test/build.ts'
import { netns, requireRoot } from '../../../test/netns.ts'
import { otherZebra, startDaemon } from '../session.ts'

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
  other.kill('SIGKILL')
  await once(other, 'exit')
  t.equal(await otherZebra(places), undefined)
})
