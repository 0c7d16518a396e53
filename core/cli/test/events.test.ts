/** `stratumctl events tail` as its own process, beside the real agent. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import t from 'tap'
import { type RunningAgent, startAgent } from '../../../test/agent.ts'
import { netns, requireRoot, type Scope } from '../../../test/netns.ts'
import type { Event } from '../../state/events.ts'
import type { End } from '../../transport/stream/frames.ts'
import { verbs } from '../verbs/events.ts'
import { ctlFor, fakeControl, listenAt } from './control.ts'

const MAIN = join(import.meta.dirname, '../main.js')
const RULES = '/api/v1/rules'

interface Tail {
  child: ChildProcess
  /** The next line of standard output. */
  line(): Promise<string>
  /** Everything that was not read, once the process has ended. */
  end(): Promise<{ code: number | null; lines: string[]; err: string }>
}

function tail(t: Scope, { runDir }: RunningAgent, ...options: string[]): Tail {
  const env = { STRATUM_RUN_DIR: runDir }
  const child = spawn(process.execPath, [MAIN, 'events', 'tail', ...options], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  let err = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text
  })
  const gone = once(child, 'close')
  const lines = split(child.stdout)
  return {
    child,
    async line() {
      const { value, done } = await lines.next()
      if (done) throw new Error(`the tail has ended: ${err}`)
      return value
    },
    async end() {
      const rest: string[] = []
      for await (const line of lines) rest.push(line)
      await gone
      return { code: child.exitCode, lines: rest, err }
    },
  }
}

async function* split(stream: NodeJS.ReadableStream): AsyncGenerator<string, undefined, undefined> {
  let rest = ''
  stream.setEncoding('utf8')
  for await (const chunk of stream) {
    const whole = `${rest}${String(chunk)}`.split('\n')
    rest = whole.pop() ?? ''
    yield* whole
  }
  return undefined
}

const framesOf = (lines: readonly string[]): Partial<Event & End>[] => lines.map((line) => JSON.parse(line))
const ids = (lines: readonly string[]) => lines.map((line) => Number(line.split('  ')[1]))

async function agent(t: Scope, config: Record<string, string> = {}) {
  const running = await startAgent(t, { ns: netns(t), config })
  const add = async (fields: object = {}) => {
    const { status, text } = await running.call('POST', RULES, { action: 'drop', source_ip: '192.0.2.1', ...fields })
    if (status !== 201) throw new Error(text)
  }
  return { ...running, running, add }
}

t.test('events-06 a tail shows what happens meanwhile, what is asked for, and from where', async (t) => {
  if (!requireRoot(t)) return
  const { running, add, call, kill } = await agent(t)

  const all = tail(t, running, '--json', '--areas', 'firewall', '--wait', '0')
  const hello = JSON.parse(await all.line())
  t.match(hello, { v: 1, type: 'stream.hello', data: { oldest: Number, latest: Number } })
  const rules = tail(t, running, '--types', 'rule.*', '--since', '0')
  const none = tail(t, running, '--json', '--areas', 'nowhere')
  t.match(await none.line(), /stream.hello/)

  await call('PUT', `${RULES}/default`, { default_action: 'deny' })
  await add()
  const first = JSON.parse(await all.line())
  t.match(first, { type: 'default_action.updated' })
  t.ok(first.id > hello.data.latest)
  const event = JSON.parse(await all.line())
  t.match(event, { type: 'rule.created', area: 'firewall', resource: `${RULES}/1`, data: { action: 'drop' } })
  const shown = `${event.time}  ${event.id}  rule.created  ${RULES}/1  cli root`
  t.equal(await rules.line(), shown)

  const goOn = `the tail ends; to go on from here: --since ${event.id}\n`
  const replayed = tail(t, running, '--since', String(event.id - 1), '--count', '1')
  t.same(await replayed.end(), { code: 0, lines: [shown], err: goOn })
  t.match(await tail(t, running, '--since', '-1').end(), { code: 1, lines: [], err: /^stratumctl: since: must be/ })
  t.match(await tail(t, running, '--types', 'Rule').end(), { code: 1, lines: [], err: /^stratumctl: types: must be/ })
  t.match(await tail(t, running, '--count', '0').end(), { code: 2, lines: [], err: /--count: must be at least 1/ })

  rules.child.kill('SIGINT')
  t.same(await rules.end(), { code: 0, lines: [], err: goOn })
  none.child.kill('SIGINT')
  t.same(await none.end(), { code: 0, lines: [], err: '' })

  await kill('SIGKILL')
  const { code, lines, err } = await all.end()
  t.same([code, lines], [3, []])
  t.match(err, new RegExp(`^stratumctl: the agent at .* went away .*; to go on from here: --since ${event.id}\n$`))
})

t.test('events-06 the agent stops at once though there are tails, and they end with 3', async (t) => {
  if (!requireRoot(t)) return
  const { running, add, kill, restart } = await agent(t)
  const people = tail(t, running, '--areas', 'firewall', '--wait', '0')
  const machine = tail(t, running, '--areas', 'firewall', '--json', '--wait', '0')
  const { latest } = JSON.parse(await machine.line()).data
  const replayed = tail(t, running, '--areas', 'firewall', '--since', String(latest), '--wait', '0')
  await add()
  const { id } = JSON.parse(await machine.line())
  t.same(ids([await replayed.line()]), [id])
  const begun = Date.now()
  t.equal(await kill('SIGTERM'), 0)
  const took = Date.now() - begun
  t.ok(took < 4500, `${took} ms, where what is in flight may take 5000`)
  const err = `stratumctl: the agent stops; to go on from here: --since ${id}\n`
  t.same(await replayed.end(), { code: 3, lines: [], err })
  t.match(await people.end(), { code: 3, err: /^stratumctl: the agent stops; / })
  const ended = await machine.end()
  t.same([ended.code, ended.err], [3, err])
  t.match(JSON.parse(ended.lines[0] ?? ''), { type: 'stream.end', data: { code: 1001 } })
  t.match(await tail(t, running).end(), { code: 3, lines: [], err: /is stratumd running\?/ })

  await restart()
  await add()
  const next = await tail(t, running, '--areas', 'firewall', '--since', String(id), '--count', '1').end()
  t.match(next, { code: 0, lines: [/ {2}rule.created {2}/] })
  t.ok(Number(ids(next.lines)[0]) > id)
})

t.test('events-06 a tail whose output nobody takes is ended, and may go on from where it was', async (t) => {
  if (!requireRoot(t)) return
  const { running, call } = await agent(t)
  // With --json, comments and all: the pipes and sockets on the way hold a part of it only.
  const asked = ['--types', 'rule.created', '--json', '--since']
  const stalled = tail(t, running, ...asked, '0')
  const rules = Array.from({ length: 2000 }, () => ({ action: 'accept', comment: 'x'.repeat(255) }))
  for (const part of [rules, rules, rules.slice(0, 10)]) {
    t.equal((await call('POST', `${RULES}/batch`, { rules: part })).status, 200)
  }
  const { code, lines, err } = await stalled.end()
  t.equal(code, 1)
  const last = Number(/^too slow: .*; to go on from here: --since (\d+)$/.exec(JSON.parse(err).error)?.[1])
  const seen = framesOf(lines)
  t.match([seen.at(0), seen.at(-1)], [{ type: 'stream.hello' }, { type: 'stream.end', data: { code: 1013 } }])
  const events = seen.slice(1, -1)
  t.equal(events.at(-1)?.id, last)
  t.ok(events.length < 4010, `${events.length} of 4010 events were read`)
  const rest = await tail(t, running, ...asked, String(last), '--count', String(4010 - events.length)).end()
  const resources = [...events, ...framesOf(rest.lines).slice(1)].map(({ resource }) =>
    Number(resource?.split('/').at(-1)),
  )
  t.same(resources, range(1, 4010), 'nothing is missing, nothing comes twice')
})

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, n) => from + n)

/** An agent that sends `chunks` and then ends the answer, breaks it off, or does neither. */
const sending = (t: Scope, chunks: readonly string[], then: 'end' | 'destroy' | 'wait') =>
  listenAt(t, [], (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/x-ndjson' })
    for (const chunk of chunks) response.write(chunk)
    if (then !== 'wait') setImmediate(() => response[then]())
  })

const HELLO = '{"v":1,"type":"stream.hello","data":{"stream":"s","oldest":1,"latest":7}}\n'
const eventLine = (id: number) =>
  `{"v":1,"id":${id},"time":"T","type":"a.b","resource":"/r","actor":{"kind":"cli","label":"root"},"data":"\u00e9"}\n`

t.test(
  'events-06 a tail goes on by itself over restarts and kills of the agent, and misses and repeats nothing',
  async (t) => {
    if (!requireRoot(t)) return
    const { running, add, kill, restart } = await agent(t)
    const machine = tail(t, running, '--areas', 'firewall', '--json')
    const people = tail(t, running, '--areas', 'firewall', '--since', '0', '--count', '7')
    await machine.line()
    await add()
    t.match(await people.line(), /rule.created/, 'it reads before the agent is ended')
    const toldPeople = people.end()
    for (const signal of ['SIGTERM', 'SIGKILL', 'SIGTERM'] as const) {
      await add()
      await kill(signal)
      await restart()
      await add()
    }
    const seen: number[] = []
    while (seen.length < 7) {
      const frame = JSON.parse(await machine.line())
      if ('id' in frame) seen.push(Number(/rules\/(\d+)/.exec(frame.resource)?.[1]))
    }
    t.same(seen, range(1, 7))
    machine.child.kill('SIGINT')
    t.match(await machine.end(), { code: 0, err: '' })
    const told = await toldPeople
    t.match(told, { code: 0, lines: { length: 6 } })
    t.equal(told.err.match(/; waiting for it\n/g)?.length, 3, told.err)
  },
)

t.test('what a tail makes of the lines that come', async (t) => {
  const run = async (chunks: readonly string[], then: 'end' | 'destroy' | 'wait', line = 'events tail', ms?: number) =>
    ctlFor(verbs, (await sending(t, chunks, then)).socket, ms)(`${line} --wait 0`)

  const text = `${HELLO}\n${eventLine(8)}\n\n${eventLine(9)}`
  const out = 'T  8  a.b  /r  cli root\nT  9  a.b  /r  cli root\n'
  for (const chunks of [[text], text.split(''), [text.slice(0, 100), text.slice(100)]]) {
    t.match(await run(chunks, 'wait', 'events tail --count 2'), { code: 0, out, err: /--since 9\n$/ })
  }
  t.same((await run([text], 'wait', 'events tail --count 1 --json')).out, `${HELLO}${eventLine(8)}`)
  t.match(await run([HELLO], 'destroy'), { code: 3, out: '', err: /went away .*--since 7\n$/ })
  t.match(await run([HELLO, '\n'], 'wait', 'events tail --since 3', 1000), {
    code: 3,
    err: /went away \(nothing came for 1 s\); to go on from here: --since 3\n$/,
  })
  const gap = (from: number) => `{"v":1,"type":"stream.gap","data":{"from":${from},"to":5}}\n`
  t.match(await run([HELLO, gap(2)], 'end', 'events tail --since 1'), {
    code: 0,
    err: 'events 2 to 5 are not kept any more\nthe tail ends; to go on from here: --since 5\n',
  })
  t.match(await run([HELLO, gap(0)], 'end', 'events tail --since 90'), { code: 0, err: /none of this node/ })
  const slow = '{"v":1,"type":"stream.end","data":{"code":1013,"reason":"too slow"}}\n'
  t.match(await run([HELLO, slow], 'end', 'events tail --json'), {
    code: 1,
    out: `${HELLO}${slow}`,
    err: '{"error":"too slow; to go on from here: --since 7"}\n',
  })
})

t.test('a tail that is refused or finds nobody says so', async (t) => {
  const { socket, asked } = await fakeControl(t, 400, { error: 'areas: no' })
  const ctl = ctlFor(verbs, socket)
  t.same(await ctl('events tail --areas a,b --types rule.*,vip.created'), {
    code: 1,
    out: '',
    err: 'stratumctl: areas: no\n',
  })
  t.same(asked, ['GET /control/v1/events?types=rule.*%2Cvip.created&areas=a%2Cb'])
  t.match(await ctlFor(verbs, '/nowhere')('events tail'), { code: 3, err: /is stratumd running\?\n$/ })
})
