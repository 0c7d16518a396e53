import '../../../test/inside.ts'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'drizzle-orm'
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { openEtcd } from '../etcd/client.ts'
import { openFiles } from '../files.ts'
import { enter, makeParent, startNode, statusOf, type TestNode, until, untilSame } from './node.ts'

requireRoot(t)

/** Process id of a node's etcd. */
function etcdOf({ stateDir }: TestNode): number {
  const runs = (pid: string) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
        .split('\0')
        .includes(`--data-dir=${join(stateDir, 'etcd')}`)
    } catch {
      return false
    }
  }
  return Number(readdirSync('/proc').find((pid) => /^\d+$/.test(pid) && runs(pid)))
}
const signal = (node: TestNode, name: NodeJS.Signals) => process.kill(etcdOf(node), name)

t.test('members that are away, killed or cut off come back to what all have', async (t) => {
  const [a, b, c] = await Promise.all([startNode(t, 1), startNode(t, 2), startNode(t, 3)])
  const all = [a, b, c]
  await a.engine.found()
  await enter(a, b)
  await enter(a, c)

  await t.test('an etcd that is killed is started again, and nothing that was answered is lost', async (t) => {
    const leader = all.find(({ engine }) => engine.standing()?.isLeader) ?? a
    const [other] = all.filter((node) => node !== leader)
    const killed = etcdOf(leader)
    process.kill(killed, 'SIGKILL')
    const outcomes: unknown[] = []
    await until(async () => {
      outcomes.push(await statusOf(other?.change(makeParent(`during the election ${outcomes.length}`))))
      return outcomes.at(-1) === 'done'
    }, 'a change is taken again')
    t.ok(
      outcomes.every((outcome) => outcome === 'done' || outcome === 503),
      outcomes.join(),
    )
    await until(() => leader.engine.standing()?.writable && etcdOf(leader) !== killed, 'it runs again')
    await leader.change(makeParent('by who was killed'))
    await untilSame(all)
    for (const [n, outcome] of outcomes.entries()) {
      if (outcome === 'done') t.match(leader.rows(), `during the election ${n}"`)
    }
  })

  await t.test('what etcd has forgotten meanwhile is taken over whole', async (t) => {
    await c.built.agent.close()
    for (let n = 0; n < 20; n++) await a.change(makeParent(`while it was away ${n}`))
    await b.change((tx) => void tx.run(sql`delete from trial_parents where name like ${'%away 3'}`))
    const { ca = '', certificate = '', key = '' } = openFiles(a.stateDir).tls() ?? {}
    const etcd = await openEtcd({ port: 7081, node: 'n1', ca, certificate, key })
    const { revision } = await etcd.range('/m/', { limit: 1 })
    await etcd.compact(revision)
    etcd.close()
    await c.start()
    await untilSame(all)
    t.match(c.rows(), 'while it was away 7')
    t.ok(c.built.logged.some(({ why }) => why === 'compacted'))
    await until(() => c.engine.standing()?.writable, 'it has a leader')
    await c.change(makeParent('afterwards'))
    await untilSame(all)
  })

  await t.test('without a majority nobody is told that a change was made, and then all agree', async (t) => {
    for (const node of [b, c]) signal(node, 'SIGSTOP')
    t.equal(await statusOf(a.change(makeParent('into the void'))), 503)
    await until(() => a.engine.standing()?.writable === false, 'it knows')
    await t.rejects(a.change(makeParent('refused')), { status: 503, message: /can be reached, so nothing they/ })
    t.ok(a.rows().length > 100, 'reads go on')
    for (const node of [b, c]) signal(node, 'SIGCONT')
    for (const node of all) await until(() => node.engine.standing()?.writable, 'a majority')
    for (const node of all) await node.change(makeParent(`healed ${node.engine.self}`))
    await untilSame(all)
    t.notMatch(a.rows(), '"refused"')
  })
})
