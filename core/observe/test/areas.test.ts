/** Metrics that an area declares: named after it, read on asking, and nobody else's trouble when they fail. */
import t from 'tap'
import { readExposition } from '../../../test/exposition.ts'
import { openAgent } from '../../../test/rest/ask.ts'
import type { Agent } from '../../agent.ts'
import { type AreaMetric, defineArea } from '../../area.ts'

const area = (name: string, metrics: readonly AreaMetric[]) =>
  defineArea(import.meta.url, { name, prefixes: [`/${name}`], metrics, routes() {} })
const gauge = (name: string, read: AreaMetric['read'], labels: readonly string[] = []): AreaMetric => ({
  name,
  help: 'What it is.',
  type: 'gauge',
  labels,
  read,
})
const scrape = async (agent: Agent) => readExposition(await agent.metrics.text())

t.test('what an area declares is shown under its name, with what it reads now', async (t) => {
  let things = 3
  const { agent } = await openAgent(t, {
    config: { max_rules: '77' },
    extraAreas: [
      area('vip-pool', [
        gauge('things', () => [{ value: things }]),
        gauge('limit', ({ config }) => [{ value: config.int('max_rules') }]),
        gauge('late', async () => [{ value: 9 }]),
        gauge('none', () => []),
        gauge(
          'odd_text',
          function* () {
            yield { value: 1, labels: { what: 'a"b\\c\nd' } }
          },
          ['what'],
        ),
        { name: 'made_total', help: 'So many.', type: 'counter', read: () => [{ value: 5 }] },
      ]),
    ],
  })
  const metrics = await scrape(agent)
  t.equal(metrics.value('stratum_vip_pool_things'), 3)
  t.equal(metrics.value('stratum_vip_pool_limit'), 77)
  t.equal(metrics.value('stratum_vip_pool_late'), 9)
  t.equal(metrics.value('stratum_vip_pool_odd_text', { what: 'a"b\\c\nd' }), 1)
  t.match(metrics.families.get('stratum_vip_pool_made_total'), { type: 'counter', series: [{ value: 5 }] })
  t.notOk(metrics.families.has('stratum_vip_pool_none'), 'what has no samples is not shown')
  things = 4
  t.equal((await scrape(agent)).value('stratum_vip_pool_things'), 4)
})

t.test('an area that cannot be read is left out, logged once and counted, and comes back', async (t) => {
  let broken = true
  const fails = gauge('two', () => {
    if (broken) throw new Error('no such table')
    return [{ value: 2 }]
  })
  const { agent, logged } = await openAgent(t, {
    extraAreas: [
      area('good', [gauge('one', () => [{ value: 1 }])]),
      area('bad', [gauge('one', () => [{ value: 1 }]), fails]),
    ],
  })
  const warnings = () => logged.filter(({ msg }) => msg === 'the metrics of an area cannot be read')
  for (let n = 1; n <= 3; n++) {
    const metrics = await scrape(agent)
    t.equal(metrics.value('stratum_good_one'), 1)
    t.notOk(metrics.families.has('stratum_bad_one'), 'not even what could be read')
    t.equal(metrics.value('stratum_scrape_errors_total', { area: 'bad' }), n)
    t.equal(metrics.value('stratum_scrape_errors_total', { area: 'good' }), 0)
  }
  t.equal(warnings().length, 1)
  t.match(warnings()[0], { area: 'bad', err: { message: 'no such table' } })
  broken = false
  t.equal((await scrape(agent)).value('stratum_bad_two'), 2)
  broken = true
  await scrape(agent)
  t.equal(warnings().length, 2, 'a failure after it was well is news')
})

t.test('samples that do not fit their declaration are not shown', async (t) => {
  const table: [string, AreaMetric][] = [
    ['a label that is not declared', gauge('x', () => [{ value: 1, labels: { id: '7' } }])],
    ['a declared label that is missing', gauge('x', () => [{ value: 1 }], ['kind'])],
    ['no number', gauge('x', () => [{ value: Number.NaN }])],
    ['a promise that is broken', gauge('x', () => Promise.reject(new Error('no')))],
  ]
  for (const [what, metric] of table) {
    await t.test(what, async (t) => {
      const { agent } = await openAgent(t, { extraAreas: [area('odd', [metric])] })
      const metrics = await scrape(agent)
      t.notOk(metrics.families.has('stratum_odd_x'))
      t.equal(metrics.value('stratum_scrape_errors_total', { area: 'odd' }), 1)
    })
  }
})

t.test('a declaration against the rules of Prometheus stops the agent from starting, and says which', async (t) => {
  const read = () => []
  const table: [Partial<AreaMetric>, RegExp][] = [
    [{ name: 'camelCase' }, /metric camelCase of area odd must be named in snake_case/],
    [{ name: 'with-dash' }, /snake_case/],
    [{ name: 'made', type: 'counter' }, /_total/],
    [{ name: 'made_total', type: 'gauge' }, /_total/],
    [{ name: 'made_count' }, /histogram/],
    [{ help: ' ' }, /no help/],
    [{ labels: ['le'] }, /label le/],
    [{ labels: ['Kind'] }, /label Kind/],
  ]
  for (const [wrong, problem] of table) {
    const metric: AreaMetric = { name: 'x', help: 'What it is.', type: 'gauge', read, ...wrong }
    await t.rejects(openAgent(t, { extraAreas: [area('odd', [metric])] }), problem)
  }
  const twice = [gauge('x', read), gauge('x', read)]
  await t.rejects(openAgent(t, { extraAreas: [area('odd', twice)] }), /declared twice/)
})

t.test('the metrics of an area that is off are not read', async (t) => {
  const never = gauge('x', () => {
    throw new Error('must not be read')
  })
  const { agent } = await openAgent(t, {
    config: { disabled_areas: 'odd' },
    extraAreas: [area('odd', [never])],
  })
  const metrics = await scrape(agent)
  t.equal(metrics.value('stratum_area_up', { area: 'odd' }), 0)
  t.equal(metrics.value('stratum_area_up', { area: 'node' }), 1)
  t.equal(metrics.value('stratum_scrape_errors_total', { area: 'odd' }), 0)
})
