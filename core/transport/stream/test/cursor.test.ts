import t from 'tap'
import { fc } from '../../../../test/property.ts'
import { ApiError } from '../../../errors.ts'
import type { Event } from '../../../state/events.ts'
import { type Cursor, type Frame, openCursor, PAGE } from '../cursor.ts'
import { readQuestion, typeFilter } from '../question.ts'

const STREAM = '11111111-2222-3333-4444-555555555555'
const OTHER = '99999999-2222-3333-4444-555555555555'
const all = () => true

/** An outbox in memory that holds the events `oldest` to `latest`; both may move while it is read. */
function outboxOf(oldest: number, latest: number) {
  const kept = { oldest, latest }
  const eventOf = (id: number): Event => ({
    v: 1,
    id,
    time: '2026-01-01T00:00:00.000Z',
    type: id % 2 === 0 ? 'rule.created' : 'record.updated',
    area: id % 2 === 0 ? 'firewall' : 'dns',
    resource: `/api/v1/things/${id}`,
    actor: { kind: 'token', label: 'node' },
    request_id: `r-${id}`,
    data: { id },
  })
  return {
    kept,
    stream: STREAM,
    bounds: () => (kept.latest < kept.oldest ? { oldest: 0, latest: 0 } : { ...kept }),
    after(since: number, limit: number): Event[] {
      const first = Math.max(since + 1, kept.oldest)
      const count = Math.max(0, Math.min(limit, kept.latest - first + 1))
      return Array.from({ length: count }, (_, n) => eventOf(first + n))
    },
  }
}

function drain(cursor: Cursor): Frame[] {
  const frames: Frame[] = []
  for (;;) {
    const page = cursor.next()
    frames.push(...page.frames)
    if (!page.more) return frames
  }
}

/** `5-9` for a gap, the id for an event. */
const brief = (frames: readonly Frame[]) =>
  frames.map((frame) => ('id' in frame ? frame.id : `${frame.data.from}-${frame.data.to}`))
const range = (from: number, to: number) => Array.from({ length: Math.max(0, to - from + 1) }, (_, n) => from + n)

t.test('events-06 resuming at any point gives each later event once, in order, whatever the pages', async (t) => {
  const anywhere = fc.tuple(fc.nat(3 * PAGE), fc.nat(3 * PAGE), fc.nat(2 * PAGE))
  fc.assert(
    fc.property(anywhere, ([a, b, more]) => {
      const [since, latest] = [Math.min(a, b), Math.max(a, b)]
      const outbox = outboxOf(1, latest)
      const cursor = openCursor(outbox, { since }, all)
      const first = drain(cursor)
      outbox.kept.latest += more
      const rest = drain(cursor)
      t.same(brief([...first, ...rest]), range(since + 1, latest + more))
    }),
    { numRuns: 60 },
  )
})

t.test('events-06 whatever is pruned before it is read is told as one gap, and nothing else is missing', async (t) => {
  fc.assert(
    fc.property(fc.nat(500), fc.nat(400), fc.array(fc.nat(300), { maxLength: 5 }), (since, kept, prunings) => {
      const outbox = outboxOf(1, since + kept)
      const cursor = openCursor(outbox, { since }, all)
      const frames: Frame[] = []
      for (const step of prunings) {
        frames.push(...cursor.next().frames)
        outbox.kept.latest += step
        outbox.kept.oldest = Math.max(1, outbox.kept.latest - 150)
      }
      frames.push(...drain(cursor))
      const covered = frames.flatMap((frame) => ('id' in frame ? [frame.id] : range(frame.data.from, frame.data.to)))
      t.same(covered, range(since + 1, outbox.kept.latest))
    }),
    { numRuns: 60 },
  )
})

t.test('events-06 where a reader begins', async (t) => {
  const cases: [string, [number, number], object, (string | number)[]][] = [
    ['without since: nothing old', [1, 9], {}, []],
    ['a stream without since: nothing old', [1, 9], { stream: OTHER }, []],
    ['since the beginning', [1, 3], { since: 0 }, [1, 2, 3]],
    ['since the latest', [1, 3], { since: 3 }, []],
    ['since the last that is not kept: no gap', [6, 7], { since: 5 }, [6, 7]],
    ['since older than what is kept', [6, 7], { since: 3 }, ['4-5', 6, 7]],
    ['the same stream', [1, 3], { since: 2, stream: STREAM }, [3]],
    ['another stream', [6, 7], { since: 6, stream: OTHER }, ['0-5', 6, 7]],
    ['another stream, all kept', [1, 2], { since: 1, stream: OTHER }, ['0-0', 1, 2]],
    ['an id that is yet to come', [6, 7], { since: 8 }, ['0-5', 6, 7]],
    ['an id where there is none', [1, 0], { since: 8 }, ['0-0']],
    ['the beginning where there is none', [1, 0], { since: 0 }, []],
  ]
  for (const [name, [oldest, latest], start, expected] of cases) {
    t.same(brief(drain(openCursor(outboxOf(oldest, latest), start, all))), expected, name)
  }
})

t.test('a page holds no more than it may, and an unwanted one is empty without being the last', async (t) => {
  const cursor = openCursor(outboxOf(1, 2 * PAGE), { since: 0 }, () => false)
  t.same(cursor.next(), { frames: [], more: true })
  t.equal(cursor.position, PAGE)
  const { frames } = openCursor(outboxOf(1, 2 * PAGE), { since: 0 }, all).next()
  t.equal(frames.length, PAGE)
})

t.test('filters by type agree with the pattern they stand for', async (t) => {
  const word = fc.stringMatching(/^[a-z_]{1,3}\.[a-z_]{1,3}$/)
  const pattern = fc.oneof(
    word,
    word.map((type) => `${type.slice(0, 2)}*`),
    word.map((type) => `${type.split('.')[0]}.*`),
    fc.constant('*'),
  )
  const escaped = (text: string) => text.replaceAll('.', '\\.').replaceAll('*', '.*')
  fc.assert(
    fc.property(fc.array(pattern, { minLength: 1, maxLength: 4 }), word, (patterns, type) => {
      const expected = new RegExp(`^(${patterns.map(escaped).join('|')})$`).test(type)
      t.equal(typeFilter(patterns)(type), expected, `${type} by ${patterns}`)
      t.equal(readQuestion({ types: patterns.join(' , ') }).wants({ type, area: 'any' }), expected)
    }),
    { numRuns: 200 },
  )
})

t.test('filters by type and area both have to agree; an empty one is none', async (t) => {
  const { wants } = readQuestion({ types: 'rule.*,record.created', areas: 'firewall, dns' })
  t.ok(wants({ type: 'rule.created', area: 'firewall' }))
  t.ok(wants({ type: 'record.created', area: 'dns' }))
  t.notOk(wants({ type: 'record.updated', area: 'dns' }))
  t.notOk(wants({ type: 'rule.created', area: 'nat' }))
  t.ok(readQuestion({ types: '', areas: ' ,' }).wants({ type: 'rule.created', area: 'nat' }))
})

t.test('a query is understood or refused with 400, never anything else', async (t) => {
  t.same(readQuestion({ since: '12', stream: STREAM, other: 'left alone' }).start, { since: 12, stream: STREAM })
  for (const query of [
    { since: '' },
    { since: '-1' },
    { since: '01' },
    { since: '1e3' },
    { since: '9'.repeat(16) },
    { since: ['1', '2'] },
    { stream: 'x' },
    { types: 'a*b' },
    { types: ['rule.*', 'vip.*'] },
    { types: 'Rule' },
    { areas: 'a/b' },
    { areas: Array.from({ length: 101 }, () => 'a').join(',') },
  ]) {
    t.throws(() => readQuestion(query), /: (must be|at most) /, JSON.stringify(query))
  }
  const anything = fc.dictionary(fc.constantFrom('since', 'stream', 'types', 'areas', '__proto__'), fc.anything())
  fc.assert(
    fc.property(anything, (query) => {
      try {
        readQuestion(query).wants({ type: 'rule.created', area: 'firewall' })
      } catch (error) {
        t.ok(error instanceof ApiError && error.status === 400, String(error))
      }
    }),
    { numRuns: 300 },
  )
})
