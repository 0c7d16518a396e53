/** Long lists: whole, in pieces, compressed or not, and from one snapshot. */
import { gunzipSync } from 'node:zlib'
import t from 'tap'
import { Type } from 'typebox'
import { buildAgent, TOKEN } from '../../../test/build.ts'
import { defineArea } from '../../area.ts'
import { PAGE, type Pages, sendList } from '../list.ts'

const authorization = `Bearer ${TOKEN}`

/** Numbers from 1 to `length`; what `view` makes of them. */
async function counted(length: number, extra: Partial<Pages<number>> = {}) {
  const area = defineArea(import.meta.url, {
    name: 'counted',
    prefixes: ['/counted'],
    routes(app) {
      const response = { 200: Type.Unknown() }
      app.get('/counted', { schema: { summary: 'Numbers', response } }, (_request, reply) =>
        sendList<number>(reply, app.agent.store, {
          key: 'numbers',
          page: (_db, last = 0) => Array.from({ length: Math.min(PAGE, length - last) }, (_, at) => last + at + 1),
          view: (number) => ({ number }),
          ...extra,
        }),
      )
    },
  })
  const { agent } = await buildAgent(t, { only: ['node'], extraAreas: [area] })
  const ask = (headers: Record<string, string> = {}, method: 'GET' | 'HEAD' = 'GET') =>
    agent.app.inject({ method, url: '/api/v1/counted', headers: { authorization, ...headers } })
  return { agent, ask }
}
const upTo = (length: number) => Array.from({ length }, (_, at) => ({ number: at + 1 }))

t.test('conv-07 a list of any length is whole, and says how long it is', async (t) => {
  for (const length of [0, 1, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE, 5000]) {
    const { ask } = await counted(length)
    const answer = await ask()
    t.equal(answer.statusCode, 200)
    t.match(answer.headers['content-type'], /^application\/json/)
    t.equal(Number(answer.headers['content-length']), answer.rawPayload.length, `${length}`)
    t.same(answer.json(), { numbers: upTo(length) })
  }
})

t.test('conv-09 conv-12 a long list is compressed like any other answer', async (t) => {
  for (const length of [PAGE - 1, 5000]) {
    const { ask } = await counted(length)
    const answer = await ask({ 'accept-encoding': 'gzip' })
    t.equal(answer.headers['content-encoding'], 'gzip')
    t.equal(answer.headers.vary, 'accept-encoding')
    t.same(JSON.parse(gunzipSync(answer.rawPayload).toString()), { numbers: upTo(length) })
    t.equal((await ask()).headers.vary, 'accept-encoding')
  }
})

t.test('D13 HEAD of a long list has no body', async (t) => {
  const { ask } = await counted(5000)
  const answer = await ask({}, 'HEAD')
  t.same([answer.statusCode, answer.rawPayload.length], [200, 0])
})

t.test('conv-10 conv-11 what comes before the list, and rows that are left out', async (t) => {
  for (const length of [10, 5000]) {
    const { ask } = await counted(length, {
      head: () => ({ first: 'é', rest: [] }),
      view: (number) => (number % 1000 === 0 ? { number } : undefined),
    })
    const left = upTo(length).filter(({ number }) => number % 1000 === 0)
    t.same((await ask()).json(), { first: 'é', rest: [], numbers: left })
  }
  const { ask } = await counted(5000, { view: () => undefined })
  const answer = await ask({ 'accept-encoding': 'gzip' })
  t.equal(answer.headers['content-encoding'], undefined, 'what is short is not compressed')
  t.equal(answer.payload, '{"numbers":[]}')
})

t.test('what fails on the way is an error’s answer, not half a list', async (t) => {
  const { ask } = await counted(5000, {
    view(number) {
      if (number > 2000) throw new Error('unreadable row')
      return { number }
    },
  })
  const answer = await ask()
  t.same([answer.statusCode, answer.json()], [500, { error: 'internal error' }])
})

t.test('others get their turn while a long list is made', async (t) => {
  const { ask } = await counted(100_000)
  let turns = 0
  const count = () => {
    turns++
    timer = setImmediate(count)
  }
  let timer = setImmediate(count)
  await ask()
  clearImmediate(timer)
  t.ok(turns >= 100_000 / PAGE, `${turns} turns`)
})
