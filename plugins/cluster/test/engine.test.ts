import '../../../test/inside.ts'
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { absent, put } from '../engine.ts'
import { enter, startNode, statusOf, until } from './node.ts'

requireRoot(t)

const voters = (node: Awaited<ReturnType<typeof startNode>>) =>
  node.engine
    .standing()
    ?.members.filter(({ voter, online }) => voter && online)
    .map(({ id }) => id)
    .join()

t.test('a node founds a cluster, two enter, one is removed, one leaves, and the last is by itself again', async (t) => {
  const [a, b, c] = await Promise.all([startNode(t, 1), startNode(t, 2), startNode(t, 3)])
  t.equal(a.engine.standing(), undefined)
  await a.engine.found()
  await until(() => a.engine.standing()?.isLeader, 'the founder leads')
  t.equal(a.engine.standing()?.writable, true)
  await a.engine.admit('n2', '127.0.0.2')
  await a.engine.admit('n2', '127.0.0.2')
  t.equal(await statusOf(a.engine.admit('n2', '127.0.0.9')), 409)
  t.equal(await statusOf(a.engine.admit('n9', '127.0.0.2')), 409)
  await enter(a, b)
  await enter(b, c)
  for (const node of [a, b, c]) await until(() => voters(node) === 'n1,n2,n3', `${node.engine.self} knows all`)
  const leaders = () => new Set([a, b, c].map(({ engine }) => engine.standing()?.leader))
  await until(() => leaders().size === 1, 'all name one leader')
  t.ok(await c.engine.records.transact([absent('/j/1')], [put('/j/1', 'x')]))
  t.notOk(await b.engine.records.transact([absent('/j/1')], [put('/j/1', 'y')]))
  await until(async () => (await a.engine.records.get('/j/1'))?.value === 'x', 'the record is everywhere')
  t.equal(await statusOf(a.engine.certify('n2', '127.0.0.2', { certificate: 'x', authority: 'x' })), 400)

  const leader = [a, b, c].find(({ engine }) => engine.standing()?.isLeader) ?? a
  const [first, second] = [a, b, c].filter((node) => node !== leader)
  await first?.engine.expel(leader.engine.self)
  await until(() => leader.engine.standing() === undefined, 'the removed one is by itself')
  await second?.engine.quit()
  t.equal(second?.engine.standing(), undefined)
  await until(() => first?.engine.standing() === undefined, 'the last one is by itself')
})

t.test('a member that was stopped is a member again', async (t) => {
  const [a, b] = await Promise.all([startNode(t, 1), startNode(t, 2)])
  await a.engine.found()
  await enter(a, b)
  await b.restart()
  await until(() => voters(b) === 'n1,n2', 'it sees all')
  await a.restart()
  await until(() => voters(a) === 'n1,n2', 'it sees all')
})

t.test('records are read while etcd is started anew to trust others', async (t) => {
  const [a, b, c] = await Promise.all([startNode(t, 1), startNode(t, 2), startNode(t, 3)])
  await a.engine.found()
  await enter(a, b)
  await enter(a, c)
  const anew = () => b.built.logged.filter(({ msg }) => String(msg).startsWith('etcd was started anew')).length
  await until(() => [a, b, c].every((node) => voters(node) === 'n1,n2,n3'), 'all vote')
  const before = anew()
  await a.engine.expel('n3')
  const refused: string[] = []
  await until(async () => {
    await b.engine.records.list('/j/').catch((error: Error) => refused.push(error.message))
    return anew() > before
  }, 'n2 trusts the removed one no more')
  t.same(refused, [])
})
