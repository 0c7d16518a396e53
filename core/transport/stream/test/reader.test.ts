import { setImmediate as turn } from 'node:timers/promises'
import pino from 'pino'
import t from 'tap'
import type { Event, Outbox } from '../../../state/events.ts'
import { PAGE } from '../cursor.ts'
import { readQuestion } from '../question.ts'
import { openReader, type Reader } from '../reader.ts'

/** An outbox of events of `size` bytes and more, and a WebSocket whose kernel takes frames only when told. */
function stage(query: Record<string, string> = {}, latest = 0, size = 0) {
  const kept = { latest, broken: false }
  const events = (since: number, limit: number) =>
    Array.from({ length: Math.max(0, Math.min(limit, kept.latest - since)) }, (_, n) => {
      const event = { id: since + 1 + n, type: 'rule.created', area: 'firewall', data: 'x'.repeat(size) }
      // The reader looks at nothing else.
      return event as unknown as Event
    })
  const outbox: Outbox = {
    stream: 's',
    append: async () => undefined,
    wake() {},
    onWake: () => () => {},
    after(since, limit) {
      if (kept.broken) throw new Error('disk I/O error')
      return events(since, limit)
    },
    bounds: () => ({ oldest: Math.min(1, kept.latest), latest: kept.latest }),
  }
  const held: { taken: () => void }[] = []
  const sent: { type: string; id?: number }[] = []
  const calls: string[] = []
  const outlet = {
    send(text: string, taken: () => void) {
      sent.push(JSON.parse(text))
      held.push({ taken })
    },
    ping: () => void calls.push('ping'),
    close: (code: number) => void calls.push(`close ${code}`),
    terminate: () => void calls.push('terminate'),
  }
  const reader: Reader = openReader({
    outlet,
    outbox,
    question: readQuestion(query),
    hello: {
      v: 1,
      type: 'stream.hello',
      data: { stream: 's', ...outbox.bounds(), node: 'n', version: '0' },
    },
    log: pino({ level: 'silent' }),
  })
  return {
    kept,
    reader,
    held,
    sent,
    calls,
    /** The kernel takes all that is there, as often as there is more, a page at a time. */
    async takeAll() {
      while (held.length > 0) {
        for (const { taken } of held.splice(0)) taken()
        await turn()
      }
    },
    /** `count` new events, one commit each. */
    add(count: number) {
      for (let n = 0; n < count; n++) {
        kept.latest++
        reader.wake()
      }
    },
  }
}

t.test('events-06 hello comes first; a page is read only once the one before was taken', async (t) => {
  const { held, sent, takeAll } = stage({ since: '0' }, 5 * PAGE)
  t.same(
    sent.map(({ type }) => type),
    ['stream.hello'],
  )
  for (const { taken } of held.splice(0)) taken()
  t.equal(held.length, PAGE)
  await takeAll()
  t.same(
    sent.slice(1).map(({ id }) => id),
    Array.from({ length: 5 * PAGE }, (_, n) => n + 1),
  )
})

t.test('a reader that takes nothing is closed with 1013 past 1000 frames and holds one page at most', async (t) => {
  const { held, calls, add, takeAll } = stage()
  await takeAll()
  add(1000)
  await turn()
  t.same(calls, [], 'as many as may wait')
  add(1)
  await turn()
  t.same(calls, ['close 1013'])
  add(5000)
  await takeAll()
  t.ok(held.length <= PAGE)
  t.same(calls, ['close 1013'], 'and that is the end of it')
})

t.test('a reader that takes nothing is closed with 1013 past 4 MiB', async (t) => {
  const { calls, add, takeAll, held } = stage({}, 0, 100_000)
  await takeAll()
  add(42)
  await turn()
  t.same(calls, [])
  add(1)
  await turn()
  t.same(calls, ['close 1013'])
  t.ok(held.length <= PAGE)
})

t.test('a long replay and a burst in one commit are no slowness: the reader sets the pace', async (t) => {
  const { kept, reader, sent, calls, takeAll } = stage({ since: '0' }, 3000)
  await takeAll()
  kept.latest += 5000
  reader.wake()
  await takeAll()
  t.equal(sent.length, 1 + 8000)
  t.same(calls, [])
})

t.test('a replay of fat events is no slowness either, though changes go on', async (t) => {
  const { sent, calls, add, takeAll } = stage({ since: '0' }, 3 * PAGE, 50_000)
  add(30)
  await takeAll()
  t.equal(sent.length, 1 + 3 * PAGE + 30)
  t.same(calls, [])
})

t.test('what the filter drops does not wait for anybody', async (t) => {
  const { kept, reader, sent, calls, takeAll } = stage({ types: 'vip.*' })
  await takeAll()
  kept.latest += 10 * PAGE
  for (let n = 0; n < 3; n++) reader.wake()
  for (let n = 0; n < 30; n++) await turn()
  t.equal(sent.length, 1)
  t.same(calls, [])
})

t.test('a connection that leaves two pings without an answer is dead', async (t) => {
  const { reader, calls } = stage()
  reader.beat()
  reader.beat()
  reader.answered()
  reader.beat()
  reader.beat()
  t.same(calls, ['ping', 'ping', 'ping', 'ping'])
  reader.beat()
  reader.beat()
  t.same(calls.slice(4), ['terminate'])
})

t.test('an outbox that cannot be read closes the reader with 1011 and throws at nobody', async (t) => {
  const { kept, reader, calls, takeAll } = stage()
  await takeAll()
  kept.broken = true
  kept.latest++
  reader.wake()
  reader.wake()
  t.same(calls, ['close 1011'])
})

t.test('a reader that is gone reads no more', async (t) => {
  const { reader, sent, add, takeAll } = stage()
  await takeAll()
  reader.gone()
  add(3)
  t.equal(sent.length, 1)
})
