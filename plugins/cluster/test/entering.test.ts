/** Nodes whose entry fails, and members that go: the majority of the others stays theirs. */
import '../../../test/inside.ts'
import { sql } from 'drizzle-orm'
import t from 'tap'
import { here } from '../../../test/inside.ts'
import { netnsNamed, requireRoot } from '../../../test/netns.ts'
import { shownBy } from '../authority.ts'
import { remove } from '../engine.ts'
import { memberKey } from '../keys.ts'
import { enter, makeParent, ownOf, startNode, statusOf, until, untilSame } from './node.ts'

requireRoot(t)

t.test('a node that may not enter goes only once the cluster does not count on it', async (t) => {
  const [a, b] = await Promise.all([startNode(t, 1), startNode(t, 2)])
  await a.change(makeParent('x'))
  await b.change(makeParent('y'))
  await a.engine.found()
  const own = await ownOf(b)
  const admission = await a.engine.certify('n2', b.address, shownBy(own))
  const nobody = () => Promise.reject(new Error('nobody answers'))
  t.equal(await statusOf(b.engine.enter(admission, own, nobody)), 409)
  await until(() => b.engine.tls() === undefined, 'it is out')
  await until(() => a.engine.standing()?.members.length === 1, 'it is gone')
  t.ok(a.engine.standing()?.writable, 'nobody who is gone has a vote')
  await a.change(makeParent('after'))
  t.match(b.rows(), 'y')

  await b.change((tx) => void tx.run(sql`delete from trial_parents`))
  const late = await a.engine.certify('n2', b.address, shownBy(own))
  await a.engine.expel('n2')
  const mayCome = () => a.engine.mayCome('n2')
  await t.rejects(b.engine.enter(late, own, nobody, mayCome), { status: 409, message: /removed before it had come/ })
  t.equal(b.engine.tls(), undefined)
  await enter(a, b)
  await untilSame([a, b])
})

t.test('who comes while the members are silent comes once they speak', async (t) => {
  const [a, b] = await Promise.all([startNode(t, 1), startNode(t, 2)])
  await a.change(makeParent('x'))
  await a.engine.found()
  const own = await ownOf(b)
  const admission = await a.engine.certify('n2', b.address, shownBy(own))
  const { run } = netnsNamed(t, here ?? '')
  run('nft', 'add table inet silent; add chain inet silent input { type filter hook input priority -300; }')
  run('nft', 'add rule inet silent input ip daddr 127.0.0.1 tcp dport 7074 drop')
  const entered = b.engine.enter(admission, own, () => a.engine.expel('n2'))
  entered.catch(() => {})
  const ended = () => b.built.logged.find(({ msg }) => msg === 'etcd ended and is started again')
  t.match(await until(ended, 'its etcd has asked in vain'), { said: /cannot fetch cluster info/ })
  run('nft', 'delete table inet silent')
  t.equal(await statusOf(entered), 'done')
  await untilSame([a, b])
})

t.test('who cannot be taken in asks less and less often, and can leave', async (t) => {
  const [a, b] = await Promise.all([startNode(t, 1), startNode(t, 2)])
  await a.engine.found()
  await enter(a, b)
  for (const node of [a, b]) await node.built.agent.close()
  b.edit("update cluster_self set mode = 'joining', revision = 0")
  b.loseData()
  await b.start()
  const asked = () => b.built.logged.filter(({ msg }) => msg === 'entering the cluster is not finished yet')
  await until(() => asked().length > 2, 'it has asked three times')
  const [, second, third] = asked().map(({ time }) => Number(time))
  t.ok(Number(third) - Number(second) >= 1900)
  await b.engine.quit()
  t.equal(b.engine.tls(), undefined)
})

t.test('members that go', async (t) => {
  const [a, b] = await Promise.all([startNode(t, 1), startNode(t, 2)])
  await a.engine.found()
  await a.engine.records.transact([], [remove(memberKey('n1'))])
  await a.restart()
  const record = await until(
    () => a.engine.records.get(memberKey('n1')).catch(() => undefined),
    'who did not leave is there',
  )
  t.match(JSON.parse(record.value), { address: '127.0.0.1', joined: true })

  await enter(a, b)
  await b.change(makeParent('held'))
  b.failCommits(2, 'held')
  await a.engine.expel('n2')
  await until(() => b.engine.standing() === undefined, 'it goes on by itself, though not at once')
  t.match(b.rows(), 'held')
})

t.test('whose last fellow left while its agent was away goes on by itself', async (t) => {
  const a = await startNode(t, 1)
  await a.engine.found()
  await a.restart()
  t.ok(a.engine.standing(), 'not who has had none')
  await a.built.agent.close()
  a.edit('update cluster_self set had_others = 1')
  await a.start()
  await until(() => a.engine.standing() === undefined, 'it goes on')
})

t.test('who has come and gone before anybody looked has been there all the same', async (t) => {
  const [a, b] = await Promise.all([startNode(t, 1), startNode(t, 2)])
  await a.engine.found()
  await enter(a, b)
  await b.engine.quit()
  await until(() => a.engine.standing() === undefined, 'the founder is by itself')
})
