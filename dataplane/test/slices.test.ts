/** Long work gives the event loop its turn, and short work does not wait for it. */
import t from 'tap'
import { Pace } from '../slices.ts'

/** A pace by a clock that only `part` moves, and whether the event loop has had a turn since. */
function paced() {
  let clock = 0
  let turned = false
  setImmediate(() => {
    turned = true
  })
  const pace = new Pace(() => clock)
  const passes = (ms: number) => async () => {
    clock += ms
  }
  return { pace, passes, turned: () => turned }
}

t.test('parts that have taken a slice together are followed by a turn, others are not', async (t) => {
  const { pace, passes, turned } = paced()
  await pace.during(passes(3))
  await pace.rest()
  t.notOk(turned())
  await pace.during(passes(3))
  await pace.rest()
  t.ok(turned())
})

t.test('what others do in between does not count', async (t) => {
  const { pace, passes, turned } = paced()
  await pace.during(passes(3))
  await passes(1000)()
  await pace.during(passes(1))
  await pace.rest()
  t.notOk(turned())
})

t.test('a part that fails counts, and its failure is passed on', async (t) => {
  const { pace, passes, turned } = paced()
  const failing = pace.during(async () => {
    await passes(9)()
    throw new Error('no')
  })
  await t.rejects(failing, { message: 'no' })
  await pace.rest()
  t.ok(turned())
})
