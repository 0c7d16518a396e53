/** Readers of the event stream, how they end, and what the gates in front of it refuse. */
import t from 'tap'
import { readExposition } from '../../../test/exposition.ts'
import type { Agent } from '../../agent.ts'
import { readQuestion } from '../../transport/stream/question.ts'
import { openReader } from '../../transport/stream/reader.ts'
import { listen, refusal, rig, serveEvents } from '../../transport/stream/test/rig.ts'
import type { EventCounts } from '../counts.ts'

const scrape = async (agent: Agent) => readExposition(await agent.metrics.text())
const ended = async (agent: Agent) =>
  Object.fromEntries(
    (await scrape(agent))
      .series('stratum_stream_readers_ended_total')
      .filter(({ value }) => value > 0)
      .map(({ labels: { reason }, value }) => [reason, value]),
  )

t.test('readers and frames are counted, and why readers are gone', async (t) => {
  const built = await rig(t)
  const { agent } = built
  const listener = await serveEvents(t, built)
  const [one, two] = [await listen(t, listener, built), await listen(t, listener, built)]
  await built.addRules(2)
  await Promise.all([one.until(3), two.until(3)])
  let metrics = await scrape(agent)
  t.equal(metrics.value('stratum_stream_readers'), 2)
  t.equal(metrics.value('stratum_stream_frames_total'), 6, 'a hello and two events for each')
  one.socket.close()
  while ((await scrape(agent)).value('stratum_stream_readers') === 2) await new Promise(setImmediate)
  agent.overrides.change((content) => {
    content.config.api_allowed_ips = '192.0.2.1'
  })
  await agent.config.reload()
  t.match(await two.closed, { code: 1008 })
  metrics = await scrape(agent)
  t.equal(metrics.value('stratum_stream_readers'), 0)
  t.same(await ended(agent), { left: 1, policy: 1 })
})

t.test('readers that the stopping agent sends away', async (t) => {
  const built = await rig(t)
  const listener = await serveEvents(t, built)
  const reader = await listen(t, listener, built)
  await reader.until(1)
  await listener.close(1000)
  t.match(await reader.closed, { code: 1001 })
  t.same(await ended(built.agent), { stopping: 1 })
})

t.test('a handshake that a gate refuses is counted like a request', async (t) => {
  const built = await rig(t)
  const listener = await serveEvents(t, built)
  t.match(await refusal(listener, built, '/api/v1/events', { authorization: 'Bearer wrong' }), { status: 401 })
  t.match(await refusal(listener, built, '/api/v1/events'), { status: 401 })
  const metrics = await scrape(built.agent)
  t.equal(metrics.value('stratum_gate_refusals_total', { gate: 'bearer' }), 2)
  t.equal(metrics.value('stratum_authentication_failures_total', { transport: 'events' }), 1)
  t.equal(metrics.value('stratum_authentication_failures_total', { transport: 'rest' }), 0)
})

t.test('slow, dead and unreadable', async (t) => {
  const { agent } = await rig(t)
  const open = (outbox = agent.outbox) => {
    const said: string[] = []
    const counts: Pick<EventCounts, 'opened' | 'frame' | 'ended'> = {
      opened: () => void said.push('opened'),
      frame() {},
      ended: (reason) => void said.push(reason),
    }
    const outlet = { send() {}, ping() {}, close() {}, terminate() {} }
    const data = { stream: outbox.stream, oldest: 0, latest: 0, node: 'n', version: '0' }
    const parts = { outlet, outbox, question: readQuestion({}), log: agent.app.log, counts }
    return { said, reader: openReader({ ...parts, hello: { v: 1, type: 'stream.hello', data } }) }
  }
  const dead = open()
  for (let n = 0; n < 5; n++) dead.reader.beat()
  dead.reader.gone()
  t.same(dead.said, ['opened', 'dead'], 'once')

  const unreadable = open({
    ...agent.outbox,
    after: () => {
      throw new Error('no such table')
    },
  })
  unreadable.reader.wake()
  t.same(unreadable.said, ['opened', 'error'])

  const event = {
    v: 1 as const,
    time: '',
    type: 'x.y',
    area: 'x',
    resource: '/',
    actor: { kind: 'cli' as const, label: '' },
  }
  const many = (since: number) =>
    Array.from({ length: 200 }, (_, n) => ({ ...event, id: since + n + 1, request_id: '', data: 0 }))
  const slow = open({ ...agent.outbox, bounds: () => ({ oldest: 1, latest: 0 }), after: many })
  slow.reader.wake()
  for (let n = 0; n < 50 && slow.said.length < 2; n++) await new Promise(setImmediate)
  t.same(slow.said, ['opened', 'slow'])
})
