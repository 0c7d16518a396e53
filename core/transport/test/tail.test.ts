/** The event stream over the control socket, read by clients that keep to nothing. */
import { once } from 'node:events'
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import pino from 'pino'
import t from 'tap'
import { type BuildAgentOptions, buildArea, scratch } from '../../../test/build.ts'
import { heldBytes } from '../../../test/held.ts'
import type { Scope } from '../../../test/netns.ts'
import { system } from '../../state/events.ts'
import { listenControl } from '../listener.ts'
import type { Frame } from '../stream/cursor.ts'
import type { End, Hello } from '../stream/frames.ts'
import { openTails } from '../tail.ts'

const EVENTS = '/control/v1/events'
type Line = Frame | Hello | End

async function node(t: Scope, options: BuildAgentOptions & { beatMs?: number } = {}) {
  const { beatMs, ...rest } = options
  const built = await buildArea(t, 'firewall', rest)
  const { agent } = built
  if (beatMs !== undefined) {
    agent.tails = openTails({ outbox: agent.outbox, version: agent.version, log: pino({ level: 'silent' }), beatMs })
  }
  const socket = join(scratch(t, 'tail'), 'control.sock')
  const responses: ServerResponse[] = []
  const listener = await listenControl((request, response) => {
    responses.push(response)
    agent.app.routing(request, response)
  }, socket)
  t.teardown(() => listener.close(0))
  const emit = (data: unknown, count = 1) =>
    agent.pipeline.mutate('firewall', system('test'), () => ({
      result: 0,
      touch: [],
      events: Array.from({ length: count }, () => ({ type: 'rule.updated', resource: '/api/v1/rules/1', data })),
    }))
  return { ...built, socket, responses, listener, emit }
}

/** A reader at `socketPath`; `line` resolves to the next line, undefined at the end. */
async function tail(t: Scope, socketPath: string, query = '', method = 'GET') {
  const request = http.request({ socketPath, path: `${EVENTS}${query}`, method, agent: false }).end()
  t.teardown(() => void request.destroy())
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  response.on('error', () => {})
  const lines = split(response)
  return {
    response,
    line: async (): Promise<string | undefined> => (await lines.next()).value,
    async frame(): Promise<Line> {
      const { value } = await lines.next()
      if (value === undefined) throw new Error('the stream has ended')
      return JSON.parse(value) as Line
    },
    /** What is left until the end. */
    async rest(): Promise<Line[]> {
      const found: Line[] = []
      for await (const line of lines) if (line !== '') found.push(JSON.parse(line) as Line)
      return found
    },
  }
}

async function* split(response: IncomingMessage): AsyncGenerator<string, undefined, undefined> {
  let rest = ''
  for await (const chunk of response.setEncoding('utf8')) {
    const whole = `${rest}${String(chunk)}`.split('\n')
    rest = whole.pop() ?? ''
    yield* whole
  }
  if (rest !== '') throw new Error(`ends within a line: ${rest.slice(0, 80)}`)
  return undefined
}

const ids = (lines: readonly Line[]) => lines.flatMap((line) => ('id' in line ? [line.id] : []))

t.test('events-06 hello first, then what the question asks for, one JSON text a line', async (t) => {
  const { agent, socket, call, emit } = await node(t)
  await emit('old', 3)
  const { response, frame } = await tail(t, socket, '?since=2&types=rule.*&areas=firewall')
  t.match(response.headers, { 'content-type': 'application/x-ndjson', 'x-request-id': String })
  t.same(await frame(), {
    v: 1,
    type: 'stream.hello',
    data: {
      stream: agent.outbox.stream,
      oldest: 1,
      latest: 3,
      node: hostname(),
      version: agent.version,
    },
  })
  t.match(await frame(), { id: 3, data: 'old' })
  await call('PUT', '/api/v1/rules/default', { default_action: 'deny' })
  const made = await call('POST', '/api/v1/rules', { action: 'drop' })
  t.match(await frame(), { id: 5, type: 'rule.created', data: made.body.rule, actor: { kind: 'token' } })
})

t.test('events-06 a gap is told, and a question that cannot be understood is a 400', async (t) => {
  const { socket, emit } = await node(t, { config: { max_events: '100' } })
  await emit('x', 130)
  const { frame } = await tail(t, socket, '?since=10')
  t.match(await frame(), { type: 'stream.hello' })
  t.same(await frame(), { v: 1, type: 'stream.gap', data: { from: 11, to: 30 } })
  t.match(await frame(), { id: 31 })
  for (const query of ['?since=-1', '?since=x', '?types=Rule', '?areas=%20;', '?since=1&since=2']) {
    const { response, line } = await tail(t, socket, query)
    t.equal(response.statusCode, 400, query)
    t.match(response.headers['content-type'], /^application\/json/)
    await line().catch(() => {})
  }
  t.equal((await tail(t, socket, '', 'HEAD')).response.statusCode, 404, 'HEAD would have no end')
})

t.test('the stream is not among the routes of REST', async (t) => {
  const { call } = await node(t)
  t.equal((await call('GET', '/control/v1/events')).status, 404)
  t.equal((await call('GET', '/api/v1/events')).status, 404)
})

t.test('events-06 a stalled reader is ended, costs little memory, and may go on from where it was', async (t) => {
  const { agent, socket, responses, emit } = await node(t)
  const stalled = await tail(t, socket)
  t.match(await stalled.frame(), { type: 'stream.hello' })
  stalled.response.pause()
  const held = responses[0]
  let most = 0
  const data = 'x'.repeat(64 * 1024)
  const before = heldBytes()
  let memory = 0
  for (let n = 0; n < 400; n++) {
    await emit(data)
    await new Promise(setImmediate)
    most = Math.max(most, held?.writableLength ?? 0)
    if (n % 50 === 49) memory = Math.max(memory, heldBytes() - before)
  }
  t.ok(held?.writableEnded, 'it was ended while it read nothing')
  t.ok(most < 8 * 1024 * 1024, `at most ${most} bytes waited while 25 MiB went by`)
  t.ok(memory < 12 * 1024 * 1024, `at most ${memory} bytes more are held`)
  const lines = await stalled.rest()
  const seen = ids(lines)
  t.match(lines.at(-1), { type: 'stream.end', data: { code: 1013, reason: /since=/ } })
  t.ok(seen.length < 400, `${seen.length} events were read`)
  const back = await tail(t, socket, `?since=${seen.at(-1) ?? 0}`)
  t.match(await back.frame(), { type: 'stream.hello' })
  t.match(await back.frame(), { id: (seen.at(-1) ?? 0) + 1 })
  t.equal(agent.outbox.bounds().latest, 400)
})

t.test('an idle stream carries empty lines', async (t) => {
  const { socket } = await node(t, { beatMs: 20 })
  const { line } = await tail(t, socket)
  t.match(await line(), /hello/)
  for (let n = 0; n < 5; n++) t.equal(await line(), '')
})

t.test('a reader that takes no heartbeat either is dropped', async (t) => {
  const { socket, responses, emit } = await node(t, { beatMs: 200 })
  const stalled = await tail(t, socket)
  await stalled.frame()
  stalled.response.pause()
  // More than the kernel keeps for a socket, less than makes a reader a slow one.
  for (let n = 0; n < 20; n++) await emit('x'.repeat(64 * 1024))
  const [held] = responses
  if (held === undefined) throw new Error('nobody asked')
  t.notOk(held.writableEnded, 'not ended as slow')
  await once(held, 'close')
  t.ok(held.destroyed)
})

t.test('who leaves is forgotten', async (t) => {
  const { agent, socket, responses, emit } = await node(t)
  const { frame, response } = await tail(t, socket)
  await frame()
  const closed = once(responses[0] as ServerResponse, 'close')
  response.destroy()
  await closed
  await emit('x')
  agent.tails.close()
  t.equal(responses[0]?.writableEnded, false, 'nobody is there to be told of the end')
})

t.test('a stopping agent ends its tails and does not wait for them', async (t) => {
  const { agent, socket, listener, emit } = await node(t)
  const reading = await tail(t, socket)
  const read = reading.rest()
  const stalled = await tail(t, socket)
  await stalled.frame()
  stalled.response.pause()
  for (let n = 0; n < 20; n++) await emit('x'.repeat(64 * 1024))
  agent.tails.close()
  const stopping = listener.close(60_000)
  t.match((await read).at(-1), { type: 'stream.end', data: { code: 1001, reason: 'the agent stops' } })
  const late = pause(10_000, 'late', { ref: false })
  t.not(await Promise.race([stopping, late]), 'late', 'closed long before the grace')
})

t.test('what was committed before the end is told before it', async (t) => {
  const { agent, socket, emit } = await node(t)
  const { frame, rest } = await tail(t, socket)
  await frame()
  await emit('the last one')
  agent.tails.close()
  t.match(await rest(), [
    { id: 1, data: 'the last one' },
    { type: 'stream.end', data: { code: 1001 } },
  ])
})

t.test('who comes while the agent stops is ended at once', async (t) => {
  const { agent, socket } = await node(t)
  agent.tails.close()
  const { rest } = await tail(t, socket)
  t.match(await rest(), [{ type: 'stream.hello' }, { type: 'stream.end', data: { code: 1001 } }])
})
