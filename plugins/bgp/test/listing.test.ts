/** A listing whose reader takes nothing ends, and with it what it reads from. */
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { whileTaken } from '../listing.ts'

async function* endless(onEnd: () => void) {
  try {
    for (;;) yield 'x'.repeat(1000)
  } finally {
    onEnd()
  }
}

t.test('nobody takes: the reading is ended', async (t) => {
  let ended = 0
  const abandon = () => pieces.destroy(new Error('nobody took'))
  const pieces: Readable = Readable.from(
    whileTaken(
      endless(() => ended++),
      50,
      abandon,
    ),
    { objectMode: false, highWaterMark: 10_000 },
  )
  pieces.read(0)
  await t.rejects(once(pieces, 'end'), /nobody took/)
  await wait(0)
  t.equal(ended, 1)
})

t.test('somebody takes: it goes on', async (t) => {
  let [ended, taken] = [0, 0]
  for await (const _ of whileTaken(
    endless(() => ended++),
    60_000,
    () => t.fail(),
  ))
    if (++taken === 1000) break
  t.same([ended, taken], [1, 1000])
})
