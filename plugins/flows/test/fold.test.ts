/** Days that are over: what was stored of them says the same as their samples did, and goes in time. */
import t from 'tap'
import { system } from '../../../core/state/events.ts'
import { chance } from '../../../test/chance.ts'
import { fold, overdueDay, prune } from '../fold.ts'
import { startKeeping } from '../keeper.ts'
import { dayOf, LAST_MAC, slotOf } from '../keys.ts'
import { mbps, percentile95 } from '../percentile.ts'
import { queries } from '../queries.ts'
import { decodeSeries, emptySeries, encodeSeries } from '../series.ts'
import { flowsArea, MINUTE, MONTH } from './area.ts'

const DAY = 24 * 60 * MINUTE
const iso = (ms: number) => new Date(ms).toISOString()
const mac = (n: number) => `02:ce:00:00:00:0${n}`

t.test('acct-08 D92 the percentile is the nearest rank of all samples, zeros included', async (t) => {
  const random = chance(1)
  for (let round = 0; round < 400; round++) {
    const count = 1 + Math.floor(random() * 400)
    const length = Math.floor(random() * (count + 1))
    const few = random() < 0.5
    const values = Float64Array.from({ length }, () => 1 + Math.floor(random() * (few ? 3 : 1e9)))
    const all = [...values, ...Array(count - length).fill(0)].sort((a, b) => a - b)
    const expected = all[all.length - Math.floor(all.length * 0.05) - 1]
    if (percentile95(values, length, count) !== expected) {
      t.fail(`${count} samples, ${length} of them not 0: ${JSON.stringify([...values])}`)
    }
  }
  t.equal(percentile95(new Float64Array(0), 0, 0), 0)
  // The highest of 19 counts, the second of 20.
  t.equal(percentile95(Float64Array.of(5, 7), 2, 19), 7)
  t.equal(percentile95(Float64Array.of(5, 7), 2, 20), 5)
  t.equal(mbps(37_500), 1)
})

t.test('a day as bytes is what it was, and what is no day is refused', async (t) => {
  const random = chance(2)
  for (let round = 0; round < 200; round++) {
    const series = emptySeries()
    for (const values of [series.in, series.out]) {
      for (let n = 0; n < values.length; n++) if (random() < 0.5) values[n] = Math.floor(2 ** (random() * 45))
    }
    const bytes = encodeSeries(series)
    if (JSON.stringify(decodeSeries(bytes)) !== JSON.stringify(series)) t.fail(bytes.toString('hex'))
    if (round < 20) t.throws(() => decodeSeries(bytes.subarray(0, -1)), RangeError)
    const noise = Buffer.from(Array.from({ length: Math.floor(random() * 40) }, () => Math.floor(random() * 256)))
    t.throws(() => decodeSeries(noise), RangeError)
  }
  t.equal(encodeSeries(emptySeries()).length, 6)
  t.same(decodeSeries(encodeSeries(emptySeries())), emptySeries())
})

t.test('acct-08 acct-09 D92 folded days answer as their samples did', async (t) => {
  const random = chance(3)
  const { agent, count, read, get, clock, usage } = await flowsArea(t)
  const change = (rule: Parameters<typeof agent.pipeline.mutate>[2]) =>
    agent.pipeline.mutate('flows', system('test'), rule)
  await read()
  for (let slot = 0; slot < 3 * 288; slot++) {
    clock.now += 5 * MINUTE
    for (const n of [1, 2, 3]) {
      if (random() < 0.3 * n) {
        const more = { upBytes: Math.floor(random() * 1e9), downBytes: Math.floor(random() * 1e8), upPackets: 9 }
        count(mac(n), { ...more, downPackets: 1 })
      }
    }
    // What is read later is spread over the slots.
    if (random() < 0.3) await read()
  }
  const windows = [
    '',
    `?start=${iso(MONTH + DAY)}&end=${iso(MONTH + 2 * DAY)}`,
    `?start=${iso(MONTH)}&end=${iso(MONTH + 3 * DAY)}`,
  ]
  const cut = `?start=${iso(MONTH + DAY / 2)}&end=${iso(MONTH + DAY * 1.75)}`
  const answers = async (query: string) => [
    await get(`/accounting/billing${query}`),
    await get(`/accounting/95th${query}`),
    await get(`/accounting/summary${query}`),
  ]
  const before = await Promise.all(windows.map(answers))
  const [billing, percentile, summary] = await answers(cut)
  t.equal(overdueDay(agent.store.read), dayOf(slotOf(MONTH)))
  for (let day = overdueDay(agent.store.read); day !== undefined; day = overdueDay(agent.store.read)) {
    const one = day
    await change((tx) => fold(tx, one))
    t.same(await Promise.all(windows.map(answers)), before, `day ${iso(day * DAY)}`)
  }
  t.equal(
    queries(agent.store.read).samplesBetween.all({ from: 0, behind: slotOf(MONTH + 3 * DAY) * 2 ** 20 }).length,
    0,
  )
  const after = await answers(cut)
  t.same(after[1], percentile)
  const near = (a: unknown, b: unknown) => Math.abs(Number(a) / Number(b) - 1) < 1e-5
  const bytes = (one: unknown) => (one as { summary: { total_bytes: number } }).summary.total_bytes
  t.ok(near(bytes(after[2]), bytes(summary)), 'a day that is cut is told in proportion')
  t.match(after[0], { billing: { period: (billing as { billing: { period: string } }).billing.period } })

  clock.now = MONTH + 402 * DAY
  await read()
  const today = dayOf(slotOf(clock.now))
  await change((tx) => prune(tx, today, new Set([mac(1)])))
  const left = ((await get(`/accounting/billing?start=${iso(MONTH)}`)).billing as { items: { mac: string }[] }).items
  t.same(
    left.map((item) => item.mac),
    [mac(1), mac(2), mac(3)],
    'of three days one is left',
  )
  clock.now += 2 * DAY
  for (const n of [2, 3]) usage.delete(mac(n))
  await change((tx) => prune(tx, today + 2, new Set([mac(1)])))
  t.same((await get(`/accounting/billing?start=${iso(MONTH)}`)).billing, {
    ...{ period: `${iso(MONTH)}/${iso(clock.now)}`, total_usd: 0, items: [] },
  })
  const known = queries(agent.store.read).macsAfter.all({ after: 0, last: LAST_MAC, limit: 9 })
  t.same(
    known.map((one) => one.mac),
    [mac(1)],
    'a MAC that the kernel counts for stays known',
  )
})

t.test('acct-09 the last reading is taken when the area stops', async (t) => {
  const { agent, plane, count, clock, get } = await flowsArea(t)
  const stop = await startKeeping({
    mutate: (origin, rule) => agent.pipeline.mutate('flows', origin, rule),
    ...{ plane, read: agent.store.read, now: () => new Date(clock.now), log: agent.app.log, config: agent.config },
  })
  clock.now += 10
  count(mac(1), { upBytes: 1000, upPackets: 1 })
  await stop()
  t.match(await get('/accounting/summary'), { summary: { total_bytes: 1000 } })
})
