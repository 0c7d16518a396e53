/** Tasks over REST, how operations record them, and what becomes of them when the agent ends. */

import t from 'tap'
import type { Rule } from '../../../core/area.ts'
import { system } from '../../../core/state/events.ts'
import { type BuildAgentOptions, buildArea, scratch } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { fc } from '../../../test/property.ts'
import { type ProbeRoute, probe } from '../../../test/rest/areas.ts'
import { beginTask, failTask, finishTask, progress, recordTask, type Task, withTask } from '../offers.ts'
import { tasks } from '../tables.ts'

const P = '/api/v1'
const AREAS = ['node', 'ipam', 'l2', 'networks', 'compute']
const NOW = '2030-01-01T00:00:00.000Z'
const KEEP = { at: NOW, keep: 1000 }
const draft = (id: string, more = {}) => ({ id: `task-${id}`, kind: 'vm.create', resource: `${P}/vms/${id}`, ...more })

async function tasked(t: Scope, options: BuildAgentOptions = {}) {
  const built = await buildArea(t, 'compute', { only: AREAS, now: () => new Date(NOW), ...options })
  const { agent, call } = built
  return {
    ...built,
    run: async <T>(rule: Rule<T>) => (await agent.pipeline.mutate('compute', system('test'), rule)).result,
    list: async (query = '') => (await call('GET', `${P}/tasks${query}`)).body.tasks as Task[],
    one: async (id: string) => (await call('GET', `${P}/tasks/${id}`)).body.task as Task,
    told: (since: number) => agent.outbox.after(since, 100).map(({ type, area, resource }) => [type, area, resource]),
  }
}

t.test('node-06 D34 a task from its beginning to its end', async (t) => {
  const { agent, call, one, run, told } = await tasked(t)
  await run((tx) => beginTask(tx, draft('a', { tenantId: 'ten-1' }), NOW))
  const begun = {
    ...{ id: 'task-a', kind: 'vm.create', state: 'running', resource: `${P}/vms/a`, progress: 0 },
    ...{ created_at: NOW, started_at: NOW, tenant_id: 'ten-1' },
  }
  const answer = await call('GET', `${P}/tasks/task-a`)
  t.same([answer.status, answer.body], [200, { task: begun }])
  t.ok(answer.headers.etag)
  await run((tx) => progress(tx, 'task-a', 40.9))
  await run((tx) => progress(tx, 'task-a', 40))
  t.same(await one('task-a'), { ...begun, progress: 40 })
  const later = '2030-01-01T00:01:00.000Z'
  await run((tx) => finishTask(tx, 'task-a', { at: later, keep: 10 }, { vm: 'a' }))
  const done = { ...begun, state: 'succeeded', progress: 100, finished_at: later, result: { vm: 'a' } }
  t.same(await one('task-a'), done)
  t.same(told(0), [
    ['task.created', 'compute', `${P}/tasks/task-a`],
    ['task.updated', 'compute', `${P}/tasks/task-a`],
    ['task.state_changed', 'compute', `${P}/tasks/task-a`],
  ])
  t.same(agent.outbox.after(2, 1)[0]?.data, { from: 'running', to: 'succeeded', task: done })
  for (const rule of [
    (tx) => progress(tx, 'task-a', 5),
    (tx) => finishTask(tx, 'task-a', KEEP),
    (tx) => failTask(tx, 'task-a', KEEP, 'no'),
  ] satisfies Rule<Task>[]) {
    await t.rejects(run(rule), new Error('task task-a has succeeded and cannot change any more'))
  }
  t.same(await one('task-a'), done)
  await run((tx) => beginTask(tx, draft('b'), NOW))
  await run((tx) => failTask(tx, 'task-b', KEEP, 'there is no room on the disk'))
  t.match(await one('task-b'), { state: 'failed', error: 'there is no room on the disk', progress: 0 })
  for (const id of ['task-c', 'TASK-A', '%00', 'x'.repeat(250), '1']) {
    const { status, body } = await call('GET', `${P}/tasks/${id}`)
    t.equal(status, 404, id)
    t.match(body.error, /^task \S+ not found$/)
  }
  await t.rejects(
    run((tx) => progress(tx, 'task-c', 5)),
    new Error('task task-c not found'),
  )
})

t.test('node-07 node-08 D35 the newest 50, or as many as are asked for up to 500, of one state', async (t) => {
  const { call, list, run } = await tasked(t)
  t.same(await list(), [])
  const ids = Array.from({ length: 620 }, (_, n) => `${n}`)
  await run((tx) => {
    for (const id of ids) recordTask(tx, draft(id), KEEP)
    beginTask(tx, draft('now'), NOW)
    failTask(tx, beginTask(tx, draft('bad'), NOW).result.id, KEEP, 'no')
    return { result: undefined, touch: [], events: [] }
  })
  const newest = ['task-bad', 'task-now', ...ids.reverse().map((id) => `task-${id}`)]
  const idsOf = (tasks: Task[]) => tasks.map(({ id }) => id)
  t.same(idsOf(await list()), newest.slice(0, 50))
  for (const limit of [1, 49, 50, 51, 499, 500]) {
    t.same(idsOf(await list(`?limit=${limit}`)), newest.slice(0, limit), `${limit}`)
  }
  t.same(idsOf(await list('?state=running&limit=500')), ['task-now'])
  t.same(idsOf(await list('?state=failed')), ['task-bad'])
  t.same(idsOf(await list('?state=succeeded&limit=500')), newest.slice(2, 502))
  t.same(await list('?state=queued'), [])
  t.same(await list('?state=cancelled'), [])
  for (const limit of ['0', '501', '-1', '1.5', '1e2', '01', '+5', ' 5', '%205', '', 'x', '0x10', '9'.repeat(60)]) {
    const { status, body } = await call('GET', `${P}/tasks?limit=${limit}`)
    t.same([status, body], [400, { error: 'limit: must be 1 to 500' }], limit)
  }
  for (const query of ['state=done', 'state=', 'state=Running', 'state=failed&state=running', 'limit=1&limit=2']) {
    t.equal((await call('GET', `${P}/tasks?${query}`)).status, 400, query)
  }
  t.equal((await call('POST', `${P}/tasks`, {})).status, 404)
  t.equal((await call('DELETE', `${P}/tasks/task-1`)).status, 404)
})

/** A stand-in for what manages machines: one operation that outlasts its request, one that is done at once, one without. */
const OPERATIONS: readonly ProbeRoute[] = [
  {
    method: 'POST',
    path: '/guests',
    answer: async (request, reply) => {
      const { result } = await request.server.agent.pipeline.mutate('compute', system('test'), (tx) =>
        beginTask(tx, draft('slow'), NOW),
      )
      return reply.code(201).send(withTask(reply, { status: 'created', guest: { name: 'g' } }, result.id))
    },
  },
  {
    method: 'DELETE',
    path: '/guests/:id',
    answer: async (request, reply) => {
      const { result } = await request.server.agent.pipeline.mutate('compute', system('test'), (tx) =>
        recordTask(tx, draft('quick'), KEEP),
      )
      return withTask(reply, { status: 'deleted', id: 'g' }, result.id)
    },
  },
  { method: 'PUT', path: '/guests/:id', answer: () => ({ status: 'updated', guest: { name: 'g' } }) },
]

t.test('conv-14 an operation answers with its task and where it is; the rest of the answer is unchanged', async (t) => {
  const { call } = await tasked(t, { extraAreas: [probe('guests', ['/guests'], OPERATIONS).plugin] })
  const made = await call('POST', `${P}/guests`, {})
  t.same([made.status, made.body], [201, { status: 'created', guest: { name: 'g' }, task: 'task-slow' }])
  t.equal(made.headers.location, `${P}/tasks/task-slow`)
  t.match(await call('GET', String(made.headers.location)), { status: 200, body: { task: { state: 'running' } } })
  const gone = await call('DELETE', `${P}/guests/g`)
  t.same([gone.status, gone.body], [200, { status: 'deleted', id: 'g', task: 'task-quick' }])
  t.match((await call('GET', String(gone.headers.location))).body, { task: { state: 'succeeded', progress: 100 } })
  const changed = await call('PUT', `${P}/guests/g`, {})
  t.same([changed.body, changed.headers.location], [{ status: 'updated', guest: { name: 'g' } }, undefined])
})

t.test('what an agent had begun when it ended is failed by the next one', async (t) => {
  const stateDir = scratch(t)
  const first = await tasked(t, { stateDir })
  await first.run((tx) => beginTask(tx, draft('a'), NOW))
  await first.run((tx) => progress(tx, 'task-a', 30))
  await first.run((tx) => recordTask(tx, draft('b'), KEEP))
  await first.run((tx) => beginTask(tx, draft('c'), NOW))
  const { latest } = first.agent.outbox.bounds()
  await first.agent.close()
  const second = await tasked(t, { stateDir, now: () => new Date('2030-02-01T00:00:00.000Z') })
  const error = 'the agent stopped before this was done; look at what is there and start it again'
  t.match(await second.list(), [
    { id: 'task-c', state: 'failed', error, progress: 0 },
    { id: 'task-b', state: 'succeeded' },
    { id: 'task-a', state: 'failed', error, progress: 30, finished_at: '2030-02-01T00:00:00.000Z' },
  ])
  t.same(
    second.told(latest).filter(([, area]) => area === 'compute'),
    ['a', 'c'].map((id) => ['task.state_changed', 'compute', `${P}/tasks/task-${id}`]),
  )
})

t.test('a start that cannot fail them is a start all the same', async (t) => {
  const stateDir = scratch(t)
  const first = await tasked(t, { stateDir })
  await first.run((tx) => beginTask(tx, draft('a'), NOW))
  const { plane } = first
  await first.agent.close()
  plane.observe = async () => {
    throw new Error('no netlink')
  }
  const second = await tasked(t, { stateDir, plane })
  t.match(await second.one('task-a'), { state: 'running' })
  t.ok(second.logged.some(({ msg }) => /^tasks of an agent that has ended/.test(String(msg))))
})

interface Known {
  id: string
  state: string
  ended: number
}

t.test('any sequence of operations: what runs is all there, and of what is over the last max_tasks', async (t) => {
  const step = fc.tuple(fc.constantFrom('begin', 'record', 'finish', 'fail', 'progress'), fc.nat(5), fc.integer())
  const { list, run } = await tasked(t)
  const clear: Rule<void> = (tx) => {
    tx.delete(tasks).run()
    return { result: undefined, touch: [], events: [] }
  }
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), fc.integer({ min: 1, max: 5 }), async (steps, keep) => {
      await run(clear)
      let known: Known[] = []
      let ends = 0
      const end = (task: Known, state: string) => {
        Object.assign(task, { state, ended: ++ends })
        known = known.filter(({ ended }) => ended === 0 || ended > ends - keep)
      }
      const ending = { at: NOW, keep }
      for (const [index, [verb, which, number]] of steps.entries()) {
        const id = `task-${index}`
        const going = known.filter(({ state }) => state === 'running')
        const task = going[which % Math.max(1, going.length)]
        if (verb === 'begin' || verb === 'record') {
          const added = { id, state: 'running', ended: 0 }
          known.push(added)
          if (verb === 'record') end(added, 'succeeded')
          await run((tx) =>
            verb === 'begin' ? beginTask(tx, draft(`${index}`), NOW) : recordTask(tx, draft(`${index}`), ending),
          )
        } else if (task === undefined) continue
        else if (verb === 'progress') {
          const { progress: shown } = await run((tx) => progress(tx, task.id, number))
          if (shown < 0 || shown > 100) throw new Error(`progress ${shown}`)
        } else {
          await run((tx) => (verb === 'finish' ? finishTask(tx, task.id, ending) : failTask(tx, task.id, ending, 'no')))
          end(task, verb === 'finish' ? 'succeeded' : 'failed')
        }
      }
      const expected = known.map(({ id, state }) => `${id} ${state}`).reverse()
      const shown = (await list()).map(({ id, state }) => `${id} ${state}`)
      if (JSON.stringify(shown) !== JSON.stringify(expected)) throw new Error(`${shown} instead of ${expected}`)
    }),
    { numRuns: 60 },
  )
})
