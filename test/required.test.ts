import t from 'tap'
import { requireProgram, skipping } from './required.ts'

t.test('a program that is missing skips a test, and fails on a CI machine', async (t) => {
  const planned: unknown[] = []
  const test = { plan: (...args: unknown[]) => void planned.push(args) }
  const none = { PATH: '/nowhere' }
  t.equal(requireProgram(test, 'promtool', none), false)
  t.same(planned, [[0, 'needs promtool: apt-get install prometheus']])
  t.throws(() => requireProgram(test, 'promtool', { ...none, CI: 'true' }), {
    message: /^needs promtool: apt-get install/,
  })
  t.equal(skipping('why', { CI: 'false' }), 'why')
  t.equal(planned.length, 1)
})
