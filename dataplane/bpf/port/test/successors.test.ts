import t from 'tap'
import { Successors } from '../successors.ts'

const NONE = { wanted: [], before: [], there: new Set<number>(), rows: new Set<number>(), attached: new Set<number>() }

t.test('an ifindex at which an earlier agent has left endpoints begins anew, once', async (t) => {
  const successors = new Successors()
  const there = new Set([1, 2])
  successors.take({ ...NONE, wanted: [2], there, attached: new Set([2]) })
  successors.homes([2, 7])
  const look = { ...NONE, wanted: [2, 7, 8], there: new Set([1, 2, 7, 8]), attached: new Set([2]) }
  t.same([...successors.take(look)], [7])
  t.same([...successors.take(look)], [7], 'until all is done for it')
  successors.done()
  t.same([...successors.take(look)], [])
})

t.test('a port that leaves br-work and comes back is the same, one that is deleted is not', async (t) => {
  const successors = new Successors()
  const all = { ...NONE, wanted: [2, 3], there: new Set([2, 3]), attached: new Set([2, 3]), rows: new Set([2, 3]) }
  t.same([...successors.take(all)], [])
  successors.gone(3)
  successors.take({ ...NONE, before: [2, 3], there: new Set([2]) })
  t.same([...successors.take({ ...all, rows: new Set(), attached: new Set() })], [3])
})
