import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import type { BpfObject } from '../object.ts'
import { openRing } from '../ringbuf.ts'
import { runProgram } from '../test_run.ts'
import { counter, frame, loadProbe, skb } from './support.ts'

/** What the ring of the probe holds, and what it takes out of it in one turn of the event loop at most. */
const CAPACITY = 8192
const TURN = 2048

requireRoot(t)

/** Has the probe write `count` records, numbered from `first` on, of which as many are lost as find no room. */
async function tell(probe: BpfObject, first: number, count: number): Promise<void> {
  await runProgram(probe.program('tell').fd, { data: frame(60), ctx: skb(first), repeat: count })
}

/** Resolves as soon as `reached` is true, asked after every turn of the event loop; throws after 10 s. */
async function until(reached: () => boolean): Promise<void> {
  const deadline = performance.now() + 10_000
  while (!reached()) {
    if (performance.now() > deadline) throw new Error('not reached within 10 s')
    await new Promise(setImmediate)
  }
}

t.test('records arrive in order, those from before the opening too', async (t) => {
  const probe = await loadProbe(t)
  await tell(probe, 0, 100)
  const seen: number[] = []
  const ring = openRing(probe.mapFd('events'), (record) => {
    if (record.length === 8 && record.readUInt32LE(4) === 60) seen.push(record.readUInt32LE(0))
  })
  t.teardown(() => ring.close())
  await until(() => seen.length === 100)
  await tell(probe, 100, 50)
  await until(() => seen.length === 150)
  t.same(
    seen,
    Array.from({ length: 150 }, (_, n) => n),
  )
})

t.test('the event loop gets its turn between many records, and all arrive', async (t) => {
  const probe = await loadProbe(t)
  await tell(probe, 0, 10_000)
  const lost = counter(probe, 0)
  t.equal(10_000 - lost, CAPACITY - 1, 'a full ring takes no more')
  let seen = 0
  let most = 0
  const ring = openRing(probe.mapFd('events'), () => {
    seen += 1
  })
  t.teardown(() => ring.close())
  let before = 0
  await until(() => {
    most = Math.max(most, seen - before)
    before = seen
    return seen === 10_000 - lost
  })
  t.equal(most, TURN)
  for (let n = 0; n < 20; n++) await tell(probe, 0, 5000)
  await until(() => seen + counter(probe, 0) === 110_000)
  t.ok(seen >= 2 * (CAPACITY - 1), `${seen} taken, the others found no room`)
})

t.test('a ring can be closed by its own callback', async (t) => {
  const probe = await loadProbe(t)
  await tell(probe, 0, 10)
  const seen: number[] = []
  const ring = openRing(probe.mapFd('events'), (record) => {
    seen.push(record.readUInt32LE(0))
    if (seen.length === 3) ring.close()
  })
  await until(() => seen.length === 3)
  ring.close()
  const again = openRing(probe.mapFd('events'), (record) => seen.push(record.readUInt32LE(0)))
  t.teardown(() => again.close())
  await until(() => seen.length === 10)
  t.same(seen, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 'the rest waits for the next one')
})

t.test('what the callback throws is not lost', async (t) => {
  const probe = await loadProbe(t)
  await tell(probe, 0, 3)
  const seen: number[] = []
  const surfaced: unknown[] = []
  const listeners = process.listeners('uncaughtException')
  process.removeAllListeners('uncaughtException')
  process.on('uncaughtException', (error) => surfaced.push(error.message))
  t.teardown(() => {
    process.removeAllListeners('uncaughtException')
    for (const listener of listeners) process.on('uncaughtException', listener)
  })
  const ring = openRing(probe.mapFd('events'), (record) => {
    seen.push(record.readUInt32LE(0))
    if (seen.length === 2) throw new Error('cannot read this')
  })
  t.teardown(() => ring.close())
  await until(() => seen.length === 3 && surfaced.length > 0)
  t.same(surfaced, ['cannot read this'])
})

t.test('a map that is no ring buffer is refused', async (t) => {
  const probe = await loadProbe(t)
  t.throws(() => openRing(probe.mapFd('flows'), () => undefined), /EINVAL: cannot open the ring buffer/)
})
