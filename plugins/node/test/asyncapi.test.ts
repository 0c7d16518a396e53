/** The AsyncAPI document: valid, complete, and what the stream really sends. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import specs from '@asyncapi/specs'
import { Ajv } from 'ajv'
import t from 'tap'
import { Type } from 'typebox'
import type { AreaPlugin } from '../../../core/area.ts'
import { coreEvents, declaredEvents } from '../../../core/state/core-events.ts'
import { readQuestion } from '../../../core/transport/stream/question.ts'
import { listen, rig, serveEvents } from '../../../core/transport/stream/test/rig.ts'
import { buildAgent } from '../../../test/build.ts'
import { schemasOf, servedDocuments } from '../../../test/documents.ts'

const ROOT = join(import.meta.dirname, '../../../..')
const FRAMES = ['stream.hello', 'stream.gap']

t.test('D33 the document is valid AsyncAPI 3, its schemas valid JSON Schema', async (t) => {
  const { call } = await buildAgent(t)
  const { asyncapi } = await servedDocuments(call)
  const ajv = new Ajv({ strict: false, validateFormats: false, allErrors: true })
  const valid = ajv.compile(specs.schemasWithoutId['3.0.0'] as object)
  t.ok(valid(asyncapi), JSON.stringify(valid.errors?.slice(0, 5)))
  t.notOk(valid({ ...asyncapi, channels: { events: { address: 7 } } }), 'the schema finds what is wrong')
  const compile = schemasOf(asyncapi, Ajv)
  for (const [name, { payload }] of Object.entries(asyncapi.components.messages)) t.ok(compile(payload), name)
})

t.test('every event that the core or an area declares is a message, and no other', async (t) => {
  const { call } = await buildAgent(t)
  const { asyncapi } = await servedDocuments(call)
  const areas = await Promise.all(
    readdirSync(join(ROOT, 'build/plugins')).map(async (name) => {
      const module: { default: AreaPlugin } = await import(`../../${name}/index.js`)
      return module.default.area
    }),
  )
  const types = [...Object.keys(coreEvents), ...areas.flatMap(({ events = {} }) => Object.keys(events))]
  t.ok(types.includes('rule.created'))
  t.same(Object.keys(asyncapi.components.messages).sort(), [...FRAMES, ...types].sort())
  t.same(Object.keys(asyncapi.channels.events?.messages ?? {}).sort(), [...FRAMES, ...types].sort())
})

t.test('every event that the core emits is declared by it', async (t) => {
  const sources = readdirSync(join(ROOT, 'core'), { recursive: true, encoding: 'utf8' }).filter(
    (path) => path.endsWith('.ts') && !path.includes('test/'),
  )
  t.ok(sources.length > 50)
  const emitted = sources.flatMap((path) =>
    Array.from(
      readFileSync(join(ROOT, 'core', path), 'utf8').matchAll(/\btype: '([a-z_]+\.[a-z_]+)'/g),
      ([, type]) => type,
    ),
  )
  t.same(
    emitted.filter((type = '') => !(type in coreEvents) && !/^stream\.(hello|gap|end)$/.test(type)),
    [],
  )
})

t.test('two declarations of one event are refused at the start', async (t) => {
  const events = { 'lamp.lit': Type.Object({}) }
  t.throws(
    () => declaredEvents([{ name: 'attic', events }, { name: 'cellar' }, { name: 'kitchen', events }]),
    /event lamp\.lit is declared by attic and by kitchen/,
  )
  t.match(declaredEvents([{ name: 'attic', events }]).at(-1), { type: 'lamp.lit', area: 'attic' })
})

t.test('events-06 what the stream sends is what the document says', async (t) => {
  const node = await rig(t, { config: { max_events: '100' } })
  const { call } = node
  const { asyncapi, frameProblems } = await servedDocuments(call)
  const listener = await serveEvents(t, node)
  await node.addRules(104)
  const { frames, until } = await listen(t, listener, node, '?since=1')
  await call('PUT', '/api/v1/rules/1', { action: 'accept', comment: 'é' })
  await call('PUT', '/api/v1/rules/default', { default_action: 'deny' })
  await call('DELETE', '/api/v1/rules/2')
  await until(2 + 100 + 3)
  const types = ['stream.hello', 'stream.gap', 'rule.created', 'rule.updated', 'default_action.updated', 'rule.deleted']
  t.same([...new Set(frames.map(({ type }) => type))], types)
  for (const frame of frames) t.same(frameProblems(frame), [], frame.type)
  const [event] = frames.slice(2)
  t.match(frameProblems({ ...event, type: 'rule.deleted' }), [], 'its data has an id too')
  t.match(
    frameProblems({ ...event, type: 'default_action.updated' } as never),
    [/data/],
    'the check finds what is wrong',
  )
  t.match(frameProblems({ ...event, type: 'rule.burnt' } as never), ['no message rule.burnt'])
  t.equal(asyncapi.channels.events?.address, '/api/v1/events')
})

t.test('the parameters of the document are those that the stream understands', async (t) => {
  const { call } = await buildAgent(t)
  const { asyncapi } = await servedDocuments(call)
  const names = Object.keys(asyncapi.channels.events?.bindings.ws.query.properties ?? {})
  t.same([...names].sort(), ['areas', 'since', 'stream', 'types'])
  for (const name of names) t.throws(() => readQuestion({ [name]: '!' }), new RegExp(`^${name}: must be`), name)
  t.ok(readQuestion({ other: '!' }), 'what is not documented is not looked at')
})
