/** The rows of a node and what a model of etcd tells, in an order and at moments that a real one seldom finds. */
import t from 'tap'
import { openModelled, parent, told, watching } from './modelled.ts'
import { makeParent, until } from './node.ts'

t.test('while all rows are taken over anew, only what is shared waits', async (t) => {
  const node = await openModelled(t)
  const { model, change, names } = node
  const watch = await watching(node)
  let open = () => {}
  model.gate = new Promise<void>((resolve) => {
    open = resolve
  })
  model.reading = 0
  model.rows = [parent(1, 'theirs', 9)]
  watch.end({ compacted: true })
  await until(() => model.reading > 0, 'it reads')
  await change(() => {})
  const later = change(makeParent('later'))
  await change(() => {})
  t.same(names(), [], 'etcd has not answered')
  open()
  await later
  t.same(names(), ['theirs', 'later'])
})

t.test('what the store has already is skipped, and what is not understood beside rows stops nothing', async (t) => {
  const node = await openModelled(t)
  const { model, watches, names } = node
  const watch = await watching(node)
  model.rows = [parent(1, 'new', 9)]
  watch.end({ compacted: true })
  const second = await until(() => watches[1], 'it watches again')
  second.events([told(parent(1, 'old', 5))], 5)
  second.events([told({ ...parent(1, '', 11), key: '/b/x' })], 11)
  second.events([told(parent(2, 'next', 12))], 12)
  await until(() => names().length > 1, 'the next')
  t.same(names(), ['new', 'next'])
  t.equal(watches.length, 2)
})

t.test('a row that cannot come any more has all rows taken over anew', async (t) => {
  const node = await openModelled(t)
  const { model, change, names } = node
  const watch = await watching(node)
  await change(makeParent('taken'))
  model.rows = [parent(1, 'taken', 11), parent(7, 'renamed', 10)]
  watch.events([told(parent(7, 'taken', 5))], 5)
  await until(() => names().length > 1, 'the other row')
  t.same(names(), ['taken', 'renamed'])
})
