import t from 'tap'
import { steadyStart } from '../clock.ts'

t.test('the start of the clock does not move by how late it was read, and does when the clock is set', async (t) => {
  const read = [1000, 1001, 999, 1040, 1000, 61_000, 61_001, 1000].values()
  const start = steadyStart(() => read.next().value ?? 0)
  t.same(
    Array.from({ length: 8 }, () => start()),
    [1000, 1000, 1000, 1000, 1000, 61_000, 61_000, 1000],
  )
})

t.test('it is when the machine was started', async (t) => {
  const wall = steadyStart()() + Number(process.hrtime.bigint()) / 1e6
  t.ok(Math.abs(wall - Date.now()) < 1000)
})
