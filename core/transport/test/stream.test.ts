import { once } from 'node:events'
import { request } from 'node:https'
import { connect as connectTls } from 'node:tls'
import t from 'tap'
import { TOKEN } from '../../../test/build.ts'
import { heldBytes } from '../../../test/held.ts'
import { fc } from '../../../test/property.ts'
import { type Event, system } from '../../state/events.ts'
import { BEARER, idsOf, listen, refusal, rig, serveEvents, settle } from '../stream/test/rig.ts'
import { EVENTS_PATH as EVENTS } from '../stream.ts'

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, n) => from + n)

t.test('events-01 auth-05 the node token opens the stream; hello comes first', async (t) => {
  const node = await rig(t)
  const listener = await serveEvents(t, node)
  await node.addRules(2)
  const { frames, until, socket } = await listen(t, listener, node)
  await until(1)
  const { outbox, version } = node.agent
  t.match(frames[0], {
    v: 1,
    type: 'stream.hello',
    data: { stream: outbox.stream, oldest: 1, latest: 2, node: String, version },
  })
  await node.addRules(1)
  await until(2)
  t.same(idsOf(frames), [3], 'without since only what is new')
  socket.close()
})

t.test('events-02 auth-08 a handshake is refused as HTTP, before the upgrade', async (t) => {
  const node = await rig(t, { config: { api_auth_fail_limit: '1000' } })
  const listener = await serveEvents(t, node)
  const key = await node.operatorKey()
  const unauthorized = { status: 401, body: { error: 'unauthorized' } }
  const cases: [string, string, Record<string, string>, object][] = [
    ['no token', EVENTS, {}, unauthorized],
    ['a wrong token', EVENTS, { authorization: 'Bearer wrong' }, unauthorized],
    ['another scheme', EVENTS, { authorization: `Basic ${TOKEN}` }, unauthorized],
    ['an operator key', EVENTS, { authorization: `Bearer ${key}` }, unauthorized],
    ['a token in the query', `${EVENTS}?token=${TOKEN}&access_token=${TOKEN}`, {}, unauthorized],
    ['a stranger on another path', '/api/v1/rules', {}, unauthorized],
    ['another path', '/api/v1/rules', { authorization: BEARER }, { status: 404, body: { error: 'no such path' } }],
    ['a path that cannot be decoded', '/%zz', {}, unauthorized],
    [
      'a bad since',
      `${EVENTS}?since=x`,
      { authorization: BEARER },
      { status: 400, body: { error: /^since: must be/ } },
    ],
  ]
  for (const [name, path, headers, expected] of cases)
    t.match(await refusal(listener, node, path, headers), expected, name)
})

t.test('events-02 what is no WebSocket handshake gets an HTTP answer with {error}', async (t) => {
  const node = await rig(t)
  const { where } = await serveEvents(t, node)
  const [host, port] = where.split(':')
  const ask = async (method: string, headers: Record<string, string>) => {
    const options = { host, port, path: EVENTS, method, ca: node.certificate.cert, agent: false as const }
    const call = request({ ...options, headers: { authorization: BEARER, ...headers } }).end()
    const [response] = await once(call, 'response')
    let text = ''
    for await (const chunk of response) text += chunk
    return { status: response.statusCode, error: JSON.parse(text).error, upgrade: response.headers.upgrade }
  }
  t.match(await ask('GET', {}), { status: 426, error: /WebSocket/, upgrade: 'websocket' })
  t.match(await ask('POST', {}), { status: 404, error: 'no such path' })
  const upgrade = { connection: 'Upgrade', upgrade: 'websocket' }
  t.match(await ask('GET', upgrade), { status: 400, error: /^not a WebSocket handshake: .*Key/ })
  t.match(await ask('GET', { connection: 'Upgrade', upgrade: 'h2c' }), { status: 400 })
})

t.test('events-02 allow-list and rate are asked at the handshake', async (t) => {
  const node = await rig(t, { config: { api_rate_burst: '2', api_rate_limit: '1' } })
  const listener = await serveEvents(t, node)
  const headers = { authorization: BEARER }
  const { closed } = await listen(t, listener, node)
  t.match(await refusal(listener, node, '/nothing', headers), { status: 404 })
  const { status, body, headers: answered } = await refusal(listener, node, EVENTS, headers)
  t.match({ status, body }, { status: 429, body: { error: 'rate limit exceeded' } })
  t.ok(Number(answered['retry-after']) >= 1)
  node.agent.overrides.change(({ config }) => {
    config.api_allowed_ips = '192.0.2.0/24'
  })
  node.agent.config.reload()
  const notAllowed = { status: 403, body: { error: 'forbidden: source address not allowed' } }
  t.match(await refusal(listener, node, EVENTS, headers), notAllowed)
  t.match(await closed, { code: 1008 }, 'a reader that came in before goes as well')
})

t.test('events-03 no compression is negotiated, though the client offers it', async (t) => {
  const node = await rig(t)
  const listener = await serveEvents(t, node)
  const { socket } = await listen(t, listener, node, '', { perMessageDeflate: { threshold: 0 } })
  t.equal(socket.extensions, '')
})

t.test('events-04 each mutation is one event, in order, after it is in force', async (t) => {
  const node = await rig(t)
  const { agent, call } = node
  const { frames, until, socket } = await listen(t, await serveEvents(t, node), node)
  await until(1)
  const inForce: boolean[] = []
  socket.on('message', (text) => {
    const { type, data } = JSON.parse(String(text)) as Event
    if (type === 'rule.created') inForce.push(node.plane.entries.size > 0 && agent.outbox.bounds().latest > 0 && !!data)
  })
  const answers = [
    await call('POST', '/api/v1/rules', { action: 'drop', source_ip: '192.0.2.1' }),
    await call('PUT', '/api/v1/rules/1', { action: 'accept', source_ip: '192.0.2.1' }),
    await call('PUT', '/api/v1/rules/default', { default_action: 'deny' }),
    await call('DELETE', '/api/v1/rules/2'),
    await call('POST', '/api/v1/rules/batch', { rules: [{ action: 'drop' }, { action: 'drop' }] }),
  ]
  await until(1 + 6)
  const events = frames.slice(1) as Event[]
  t.same(
    events.map(({ id, type }) => [id, type]),
    [
      [1, 'rule.created'],
      [2, 'rule.updated'],
      [3, 'default_action.updated'],
      [4, 'rule.deleted'],
      [5, 'rule.created'],
      [6, 'rule.created'],
    ],
  )
  t.same(
    answers.map(({ headers }) => Number(headers['x-event-id'])),
    [1, 2, 3, 4, 6],
  )
  t.match(events[0], {
    v: 1,
    area: 'firewall',
    resource: '/api/v1/rules/1',
    actor: { kind: 'token' },
    request_id: answers[0]?.headers['x-request-id'],
    data: answers[0]?.body.rule,
  })
  t.same(inForce, [true, true, true])
  await settle()
  t.equal(frames.length, 7)
})

t.test('events-05 a refused mutation is no event', async (t) => {
  const node = await rig(t)
  const { frames, until } = await listen(t, await serveEvents(t, node), node)
  await until(1)
  t.equal((await node.call('POST', '/api/v1/rules', { action: 'maybe' })).status, 400)
  t.equal((await node.call('DELETE', '/api/v1/rules/99')).status, 404)
  node.plane.refuse = new Error('no room')
  t.equal((await node.call('POST', '/api/v1/rules', { action: 'drop' })).status, 500)
  await node.addRules(1)
  await until(2)
  t.same(idsOf(frames), [1])
})

t.test('events-06 leaving and coming back at random points misses nothing and repeats nothing', async (t) => {
  const node = await rig(t)
  const listener = await serveEvents(t, node)
  const stretch = fc.record({ before: fc.nat(12), during: fc.nat(12), read: fc.nat(20) })
  await fc.assert(
    fc.asyncProperty(fc.array(stretch, { minLength: 1, maxLength: 4 }), async (stretches) => {
      const begin = node.agent.outbox.bounds().latest
      const seen: number[] = []
      for (const { before, during, read } of stretches) {
        await node.addRules(before)
        const since = seen.at(-1) ?? begin
        const reader = await listen(t, listener, node, `?since=${since}&stream=${node.agent.outbox.stream}`)
        await node.addRules(during)
        const there = node.agent.outbox.bounds().latest - since
        await reader.until(1 + Math.min(read, there))
        reader.socket.terminate()
        seen.push(...idsOf(reader.frames))
      }
      const last = await listen(t, listener, node, `?since=${seen.at(-1) ?? begin}`)
      const latest = node.agent.outbox.bounds().latest
      await last.until(1 + latest - (seen.at(-1) ?? begin))
      last.socket.terminate()
      t.same([...seen, ...idsOf(last.frames)], range(begin + 1, latest))
    }),
    { numRuns: 15 },
  )
})

t.test('events-06 a replay of several pages, while changes go on, is complete and filtered', async (t) => {
  const node = await rig(t)
  const listener = await serveEvents(t, node)
  const rules = Array.from({ length: 900 }, () => ({ action: 'drop' }))
  t.equal((await node.call('POST', '/api/v1/rules/batch', { rules })).status, 200)
  const whole = await listen(t, listener, node, '?since=0')
  const deleted = await listen(t, listener, node, '?since=0&types=rule.deleted&areas=firewall')
  const nothing = await listen(t, listener, node, '?since=0&areas=dns')
  await node.addRules(20)
  await node.call('DELETE', '/api/v1/rules/7')
  await whole.until(1 + 921)
  t.same(idsOf(whole.frames), range(1, 921))
  await deleted.until(2)
  t.same(idsOf(deleted.frames), [921])
  t.equal(nothing.frames.length, 1)
})

t.test('events-06 what is no longer kept is told as a gap', async (t) => {
  const node = await rig(t, { config: { max_events: '100' } })
  const listener = await serveEvents(t, node)
  await node.addRules(130)
  const { frames, until } = await listen(t, listener, node, '?since=10')
  await until(2 + 100)
  t.match(frames[0], { type: 'stream.hello', data: { oldest: 31, latest: 130 } })
  t.same(frames[1], { v: 1, type: 'stream.gap', data: { from: 11, to: 30 } })
  t.same(idsOf(frames), range(31, 130))
  const foreign = await listen(t, listener, node, '?since=50&stream=11111111-2222-3333-4444-555555555555')
  await foreign.until(2)
  t.same(foreign.frames[1], { v: 1, type: 'stream.gap', data: { from: 0, to: 30 } })
})

t.test('events-06 a stalled reader is closed with 1013, costs little memory, and may resume', async (t) => {
  const node = await rig(t)
  const { agent } = node
  const listener = await serveEvents(t, node)
  const stalled = await listen(t, listener, node)
  await stalled.until(1)
  const quick = await listen(t, listener, node)
  stalled.socket.pause()
  // Fat events fill the buffers of the kernel, which are none of ours, within few changes.
  const data = 'x'.repeat(64 * 1024)
  const draft = { type: 'rule.updated', resource: '/api/v1/rules/1', data }
  const before = heldBytes()
  let most = 0
  for (let n = 0; n < 400; n++) {
    await agent.pipeline.mutate('firewall', system('test'), () => ({ result: 0, touch: [], events: [draft] }))
    await settle(2)
    if (n % 50 !== 49) continue
    // The reader that reads on keeps what it has read: that is its own.
    for (const frame of quick.frames) if ('id' in frame) frame.data = null
    most = Math.max(most, heldBytes() - before)
  }
  await quick.until(1 + 400)
  t.same(idsOf(quick.frames), range(1, 400), 'the others read on')
  t.ok(most < 12 * 1024 * 1024, `at most ${most} bytes more while 25 MiB went by`)
  stalled.socket.resume()
  const { code, reason } = await stalled.closed
  t.match({ code, reason }, { code: 1013, reason: /since=/ })
  const seen = idsOf(stalled.frames)
  t.ok(seen.length > 0 && seen.length < 400)
  const back = await listen(t, listener, node, `?since=${seen.at(-1)}`)
  await back.until(1 + 400 - seen.length)
  t.same([...seen, ...idsOf(back.frames)], range(1, 400))
})

t.test('events-01 what a reader sends is ignored, and too much of it closes with 1009', async (t) => {
  const node = await rig(t)
  const { socket, frames, until, closed } = await listen(t, await serveEvents(t, node), node)
  await until(1)
  socket.send('{"since":0}')
  socket.send(Buffer.alloc(1024))
  socket.ping()
  await once(socket, 'pong')
  await node.addRules(1)
  await until(2)
  t.equal(frames.length, 2)
  socket.send('x'.repeat(1025))
  t.match(await closed, { code: 1009 })
})

t.test('events-01 pings go out, and a reader that answers stays', async (t) => {
  const node = await rig(t)
  const listener = await serveEvents(t, node, { pingMs: 200 })
  const { socket, until } = await listen(t, listener, node)
  const mute = await listen(t, listener, node, '', { autoPong: false })
  for (let n = 0; n < 5; n++) await once(socket, 'ping')
  t.match(await mute.closed, { code: 1006 })
  await node.addRules(1)
  await until(2)
})

t.test('events-01 a stopping agent closes with 1001, within its grace even where nobody answers', async (t) => {
  const node = await rig(t)
  const listener = await serveEvents(t, node)
  const { closed } = await listen(t, listener, node)
  const [host, port] = listener.where.split(':')
  const idle = connectTls({ host, port: Number(port), ca: node.certificate.cert })
  await once(idle, 'secureConnect')
  const stalled = await listen(t, listener, node)
  stalled.socket.pause()
  await listener.close(200)
  t.match(await closed, { code: 1001, reason: 'the agent stops' })
  await t.rejects(listen(t, listener, node), { code: 'ECONNREFUSED' })
  idle.destroy()
})
