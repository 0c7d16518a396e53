/** Health checks by HTTP, against real servers. */
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { createServer } from 'node:net'
import t, { type Test } from 'tap'
import { lbArea } from './area.ts'
import { type Sites, sites } from './sites.ts'

const CHECK = { type: 'http', interval_sec: 5, timeout_sec: 2, threshold: 2, http_path: '/healthz?deep=1' }
const [INTERVAL, TIMEOUT] = [5000, 2000]
const SECOND = 1000

async function web(t: Test, check: object = CHECK) {
  const place = sites(t)
  const area = await lbArea(t, { probe: place.probe })
  await area.add({ health_check: check })
  return { ...area, place }
}

t.test('lb-21 2xx and 3xx on http_path is health, all else is not', async (t) => {
  const { place, join, pass, served } = await web(t)
  const seen: IncomingMessage[] = []
  const statuses = [200, 204, 299, 301, 304, 399, 400, 401, 404, 500, 503, 599]
  for (const [n, status] of statuses.entries()) {
    const site = await place.http(n + 1, (request, response) => {
      seen.push(request)
      response.writeHead(status, { location: '/elsewhere' }).end('x'.repeat(100_000))
    })
    await join('web', n + 1, { port: site.port })
  }
  await pass(SECOND)
  const expected = statuses.map((status, n) => `b${n + 1} ${status < 400 ? 'up' : 'down'}`)
  t.same(served('web'), expected.sort())
  t.equal(seen.length, statuses.length, 'a redirection is not followed')
  for (const { method, url, headers } of seen) {
    t.same([method, url], ['GET', '/healthz?deep=1'])
    t.match(headers.host, /^127\.\d+\.\d+\.\d+:\d+$/)
  }
})

t.test('lb-21 the path is / unless another is given', async (t) => {
  const { place, join, pass, served } = await web(t, { type: 'http' })
  const site = await place.http(1, ({ url }, response) => void response.writeHead(url === '/' ? 200 : 404).end())
  await join('web', 1, { port: site.port })
  await pass(SECOND)
  t.same(served('web'), ['b1 up'])
})

t.test(
  'lb-21 an answer that does not come within timeout_sec is a failure, and the connection is given up',
  async (t) => {
    const { place, join, timers, checker, pass, served } = await web(t)
    const mood: { answers: boolean; heard: (request: IncomingMessage) => void } = { answers: true, heard: () => {} }
    const site = await place.http(1, (request, response) => {
      if (mood.answers) response.end()
      mood.heard(request)
    })
    await join('web', 1, { port: site.port })
    await pass(SECOND)
    t.same(served('web'), ['b1 up'])
    mood.answers = false
    let pause = INTERVAL
    for (const state of ['up', 'down']) {
      const asked = new Promise<IncomingMessage>((resolve) => {
        mood.heard = resolve
      })
      timers.advance(pause)
      const { socket } = await asked
      t.equal(socket.destroyed, false, 'it waits')
      const closed = once(socket, 'close')
      timers.advance(TIMEOUT)
      await Promise.all([checker().idle(), closed])
      t.same(served('web'), [`b1 ${state}`])
      pause = INTERVAL - TIMEOUT
    }
  },
)

t.test('lb-21 an answer that never ends is health, and is not waited for', async (t) => {
  const { place, join, pass, served } = await web(t)
  const ends: Promise<unknown>[] = []
  const { port } = await place.http(1, ({ socket }, response) => {
    ends.push(once(socket, 'close'))
    response.writeHead(200).write('x')
  })
  await join('web', 1, { port })
  await pass(SECOND)
  t.same([served('web'), ends.length], [['b1 up'], 1])
  await ends[0]
})

/** A server that says `text` to whoever comes, and ends. */
async function rude(place: Sites, n: number, text: string) {
  return place.serve(
    n,
    createServer((socket) => void socket.end(text)),
  )
}

t.test('lb-21 what is no answer by HTTP is a failure', async (t) => {
  const { place, join, pass, served } = await web(t)
  const said = [
    '',
    'SSH-2.0-x\r\n',
    'HTTP/1.1 abc\r\n\r\n',
    'HTTP/1.1 200 OK\r\n',
    `HTTP/1.1 200 OK\r\nx: ${'x'.repeat(1e6)}`,
  ]
  said.push(
    'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n',
    'HTTP/1.1 100 Continue\r\n\r\n',
  )
  said.push('HTTP/1.1 200 OK\r\n\r\n')
  for (const [n, text] of said.entries()) {
    const { port } = await rude(place, n + 1, text)
    await join('web', n + 1, { port })
  }
  await pass(SECOND)
  t.same(served('web'), [...Array.from({ length: 7 }, (_, n) => `b${n + 1} down`), 'b8 up'], 'control: the last one')
})
