import t from 'tap'
import { KernelError } from '../../../libc.ts'
import { type SharedTable, Shares } from '../shares.ts'
import { SlotPool } from '../slot-pool.ts'

/** The kernel's map, as far as shares use it. */
function kernelMap(most = Number.POSITIVE_INFINITY) {
  const rows = new Map<string, number>()
  const map = {
    set(key: string, value: number) {
      if (!rows.has(key) && rows.size >= most) throw new KernelError(7)
      rows.set(key, value)
    },
    delete: (key: string) => rows.delete(key),
    lookupBatch: async () => [...rows],
  }
  // Only these three are used.
  return { rows, map: map as unknown as SharedTable<string, number>['map'] }
}
const sum = (asked: Iterable<number>) => [...asked].reduce((all, one) => all + one, 0)

t.test('a row is there as long as somebody asks for it, and holds what all of them make', async (t) => {
  const { rows, map } = kernelMap()
  const shares = new Shares<string, number>({ map, merge: sum })
  shares.place('one', [['x', 1]])
  shares.place('two', [
    ['x', 2],
    ['y', 5],
  ])
  t.same(
    [...rows],
    [
      ['x', 3],
      ['y', 5],
    ],
  )
  shares.place('one', [['z', 9]])
  t.same(
    [...rows],
    [
      ['x', 2],
      ['y', 5],
      ['z', 9],
    ],
    'moved from x to z',
  )
  shares.place('two', [])
  shares.place('one', [])
  t.same([...rows], [])
})

t.test('arrays keep their rows: what stands for none is written', async (t) => {
  const { rows, map } = kernelMap()
  const shares = new Shares<string, number>({ map, merge: sum, absent: 0 })
  shares.place('one', [['x', 1]])
  shares.place('one', [])
  t.same([...rows], [['x', 0]])
  t.same((await shares.check()).strays, [], 'which is no stray')
})

t.test('a full map: placing what was before takes everything back', async (t) => {
  const { rows, map } = kernelMap(2)
  const shares = new Shares<string, number>({ map, merge: sum })
  shares.place('one', [['x', 1]])
  const before = shares.of('two')
  t.throws(
    () =>
      shares.place('two', [
        ['x', 1],
        ['y', 1],
        ['z', 1],
      ]),
    /E2BIG/,
  )
  shares.place('two', before)
  t.same([...rows], [['x', 1]])
})

t.test('check names who is wronged and what is stray, and a stray can be removed', async (t) => {
  const { rows, map } = kernelMap()
  const shares = new Shares<string, number>({ map, merge: sum })
  shares.note('one', [['x', 1]])
  shares.note('two', [['x', 2]])
  shares.note('three', [['y', 3]])
  rows.set('x', 7).set('other', 1)
  const { wronged, strays } = await shares.check()
  t.same([...wronged].sort(), ['one', 'three', 'two'], 'x is different, y is missing')
  t.same(
    strays.map(({ name }) => name),
    ['"other"'],
  )
  for (const { remove } of strays) remove()
  shares.place('one', shares.of('one'))
  shares.place('three', shares.of('three'))
  t.same((await shares.check()).wronged.size, 0)
  t.same([...rows].sort(), [
    ['x', 3],
    ['y', 3],
  ])
})

t.test('a slot rests before somebody else gets it', async (t) => {
  let now = 0
  const pool = new SlotPool(2, () => now)
  t.same([pool.take(), pool.take(), pool.take()], [0, 1, undefined])
  pool.give(1)
  pool.give(0)
  now = 999
  t.equal(pool.take(), undefined)
  now = 1000
  t.same([pool.take(), pool.take()], [1, 0], 'the one that rested longest first')
  pool.adopt(new Set([1]))
  t.equal(pool.take(), undefined, 'what an earlier agent gave back may just have been in use')
  now = 2000
  t.same([pool.take(), pool.take()], [0, undefined])
})

t.test('a row for which there is no room is left out where rows may be', async (t) => {
  const { rows, map } = kernelMap(1)
  const spare = new Shares<string, number>({ map, merge: sum, spare: true })
  spare.place('one', [['x', 1]])
  spare.place('two', [['y', 1]])
  t.same([...rows.keys()], ['x'])
  spare.place('one', [])
  spare.place('two', [['y', 1]])
  t.same([...rows.keys()], ['y'])
})
