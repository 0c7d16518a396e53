import t from 'tap'
import { Publisher } from '../publisher.ts'

t.test('what is published at the same time goes in one call, what comes later in another', async (t) => {
  const calls: (readonly (readonly [number, number])[])[] = []
  const publisher = new Publisher({
    async updateBatch(rings) {
      calls.push([...rings])
    },
  })
  await Promise.all([publisher.publish(1, 11), publisher.publish(2, 12)])
  await publisher.publish(3, 13)
  t.same(calls, [
    [
      [1, 11],
      [2, 12],
    ],
    [[3, 13]],
  ])
})

t.test('a call that fails is told to all that it was for, and to nobody else', async (t) => {
  const failures = [new Error('no memory')]
  const publisher = new Publisher({
    async updateBatch() {
      const failure = failures.pop()
      if (failure) throw failure
    },
  })
  const both = await Promise.allSettled([publisher.publish(1, 11), publisher.publish(2, 12)])
  t.same(
    both.map(({ status }) => status),
    ['rejected', 'rejected'],
  )
  await t.resolves(publisher.publish(1, 11))
})
