/** gRPC health of the real agent, asked by another process, while its store and its data plane fail and recover. */
import '../../../test/inside.ts'
import { once } from 'node:events'
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { FIRST, type Live, live, typesOf, until } from './live.ts'

requireRoot(t)

const RULES = '/api/v1/rules'

/** What a watch of each name was told, in order. */
async function watched(node: Live, names: readonly string[]) {
  const health = await node.health()
  const told = new Map<string, string[]>()
  for (const name of names) {
    const heard: string[] = []
    told.set(name, heard)
    const watch = health.watch(name)
    watch.on('data', ({ status }: { status: string }) => void heard.push(status))
    watch.on('error', () => {})
    await once(watch, 'data')
  }
  const last = () => [...told.values()].map((heard) => heard.at(-1))
  return {
    health,
    told: () => Object.fromEntries(told),
    /** Resolves once the last word on each name is this. */
    until: (...expected: string[]) => until(last, (now) => now.every((status, at) => status === expected[at])),
  }
}

/** Whoever holds the table forbids it to everybody else, until it ends (flag `owner` of nft(8)). */
async function seizeTable({ ns }: Live) {
  const thief = ns.spawn('nft', ['-i'], { stdio: ['pipe', 'pipe', 'inherit'] })
  const say = (line: string) => thief.stdin?.write(`${line}\n`)
  say('add table inet stratum')
  say('delete table inet stratum')
  say('add table inet stratum { flags owner; }')
  // One question: between two, the table that was found may have gone.
  await until(
    () => ns.run('nft', '--terse', 'list', 'ruleset'),
    (text) => /table inet stratum \{[^\n]*\n\tflags owner/.test(text),
  )
  return async () => {
    const gone = once(thief, 'exit')
    thief.stdin?.end()
    await gone
  }
}

t.test('grpc-01 grpc-03 Check, List and Watch from another process', async (t) => {
  const node = await live(t)
  const health = await node.health()
  t.same(await health.check(''), { status: 'SERVING' })
  const { statuses } = await health.list()
  t.match(statuses, {
    '': { status: 'SERVING' },
    node: { status: 'SERVING' },
    firewall: { status: 'SERVING' },
    dataplane: { status: 'SERVING' },
    storage: { status: 'SERVING' },
  })
  for (const name of Object.keys(statuses)) t.same(await health.check(name), statuses[name], name)
  await t.rejects(health.check('nothing'), { code: 5 })
})

t.test(
  'grpc-01 a store that cannot be written: Watch tells, the data plane serves on, and all is well again',
  async (t) => {
    const node = await live(t)
    const { agent, ns } = node
    const watch = await watched(node, ['', 'storage', 'firewall'])
    const fileSize = (limit: string) => ns.run('prlimit', '--pid', String(agent.child.pid), `--fsize=${limit}`)
    // As on a full disk: whatever would make a file longer fails.
    fileSize('1:unlimited')
    t.equal((await agent.call('POST', RULES, { action: 'accept' })).status, 500)
    await watch.until('NOT_SERVING', 'NOT_SERVING', 'SERVING')
    t.same(await watch.health.check('storage'), { status: 'NOT_SERVING' })
    t.match((await agent.call('GET', '/control/v1/services')).body.troubles, [/^the store cannot be written: /])
    t.same((await agent.call('GET', RULES)).body, { rules: [] }, 'nothing of the change remains')
    fileSize('unlimited:unlimited')
    await watch.until('SERVING', 'SERVING', 'SERVING')
    t.equal((await agent.call('POST', RULES, { action: 'accept' })).status, 201)
    t.same(watch.told(), {
      '': ['SERVING', 'NOT_SERVING', 'SERVING'],
      storage: ['SERVING', 'NOT_SERVING', 'SERVING'],
      firewall: ['SERVING'],
    })
  },
)

t.test('grpc-01 a kernel that is taken away from the agent: Watch tells, and all is well again', async (t) => {
  const node = await live(t)
  const { agent } = node
  t.equal((await agent.call('POST', RULES, { action: 'accept', comment: 'kept' })).status, 201)
  const reader = await node.reader()
  const watch = await watched(node, ['', 'dataplane', 'firewall', 'storage', 'node'])
  const giveBack = await seizeTable(node)
  // Of a rule alone the table may hold nothing.
  const refused = await agent.call('PUT', `${RULES}/default`, { default_action: 'deny' })
  t.ok(refused.status >= 400, `the change is refused: ${refused.status}`)
  await watch.until('NOT_SERVING', 'NOT_SERVING', 'NOT_SERVING', 'SERVING', 'SERVING')
  t.match((await agent.call('GET', '/api/v1/status')).body, { status: 'degraded' })
  await until(
    () => typesOf(reader),
    (types) => types.includes('agent.state_changed'),
  )
  t.match(
    reader.frames.find(({ type }) => type === 'agent.state_changed'),
    { data: { from: 'running', to: 'degraded', troubles: [/^the kernel does not hold what is stored/] } },
  )
  await giveBack()
  await until(
    () => agent.call('POST', RULES, { action: 'drop' }),
    ({ status }) => status === 201,
  )
  await watch.until('SERVING', 'SERVING', 'SERVING', 'SERVING', 'SERVING')
  t.match(node.ns.run('nft', 'list', 'table', 'inet', 'stratum'), /accept/)
})

t.test('grpc-01 D112 a reader of the stream hears that the agent stops, and the next one that it starts', async (t) => {
  const node = await live(t)
  const reader = await node.reader()
  await node.agent.restart()
  t.match(await reader.closed, { code: 1001 })
  const states = reader.frames.filter(({ type }) => type === 'agent.state_changed')
  t.match(states, [{ area: 'core', data: { from: 'running', to: 'stopping', troubles: [] } }])
  const next = await node.reader(FIRST, '?since=0&types=agent.state_changed')
  await next.until(4)
  t.match(
    next.frames.slice(1).map((frame) => frame.data),
    [
      { from: 'starting', to: 'running' },
      { from: 'running', to: 'stopping' },
      { from: 'starting', to: 'running' },
    ],
  )
})
