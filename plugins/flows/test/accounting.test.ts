/** Accounting over REST, by counters and a clock that the test sets. */
import t from 'tap'
import type { Billing, Percentile, Summary } from '../schemas.ts'
import { flowsArea, MINUTE, MONTH, P } from './area.ts'

const [A, B] = ['02:ce:00:00:00:0a', '02:ce:00:00:00:0b']
const HOUR = 60 * MINUTE
const iso = (ms: number) => new Date(ms).toISOString()

t.test('acct-01 acct-02 acct-05 acct-07 without traffic, in the running month', async (t) => {
  const { get, clock } = await flowsArea(t)
  clock.now = MONTH + 10 * HOUR
  const period = { period_start: '2030-01-01T00:00:00.000Z', period_end: '2030-01-01T10:00:00.000Z' }
  const none = { total_bandwidth_gb: 0, total_bytes: 0, total_packets: 0, total_vms: 0, active_ips: 0 }
  t.same(await get('/accounting/summary'), { summary: { ...none, ...period } })
  const window = `${period.period_start}/${period.period_end}`
  t.same(await get('/accounting/billing'), { billing: { period: window, total_usd: 0, items: [] } })
  t.same(await get('/accounting/95th'), { percentile_95th: { in_mbps: 0, out_mbps: 0, ...period } })
  clock.now = MONTH
  t.match(await get('/accounting/summary'), { summary: { period_start: iso(MONTH), period_end: iso(MONTH) } })
})

t.test('acct-06 D92 windows and rates that cannot be', async (t) => {
  const { call, get } = await flowsArea(t)
  const times = [
    ...['yesterday', '', '2030-01-01', '2030-13-01T00:00:00Z', '2030-02-30T00:00:00Z', '2030-01-01T00:00:00'],
    ...['2030-01-01T24:61:00Z', '1e3', '2030-01-01T00:00:00+99:99', '2030-01-01 00:00:00Z'],
  ]
  const same = '2029-05-01T00:00:00Z'
  for (const path of ['summary', 'billing', '95th']) {
    for (const time of times) {
      for (const field of ['start', 'end']) {
        const { status, body } = await call('GET', `${P}/accounting/${path}?${field}=${encodeURIComponent(time)}`)
        t.equal(status, 400, `${path} ${field}=${time}`)
        t.match(body.error, field)
      }
    }
    for (const query of [
      `start=${same}&end=${same}`,
      `start=${same}&end=2028-01-01T00:00:00Z`,
      `end=${same}`,
      'start=2031-01-01T00:00:00Z',
    ]) {
      t.equal((await call('GET', `${P}/accounting/${path}?${query}`)).status, 400, query)
    }
    await get(`/accounting/${path}?start=${same}&end=2029-05-01T02:00:00.5%2b01:00`)
  }
  for (const rate of ['-1', 'NaN', 'Infinity', '', 'x', '1e3', '0x10', '1,5', '-0']) {
    const { status, body } = await call('GET', `${P}/accounting/billing?rate=${encodeURIComponent(rate)}`)
    t.equal(status, 400, `rate=${rate}`)
    t.match(body.error, 'rate')
  }
})

t.test('acct-02 acct-03 acct-04 acct-08 D92 the percentile is that of the samples, and the bill follows', async (t) => {
  const { count, read, get, clock, usage } = await flowsArea(t)
  await read()
  // 40 samples: 2 of them are discarded.
  const rates = Array.from({ length: 40 }, (_, n) => ((n * 17) % 40) + 1)
  for (const rate of rates) {
    clock.now += 5 * MINUTE
    count(A, { upBytes: rate * 37_500_000, downBytes: 37_500_000, upPackets: 3, downPackets: 1 })
    if (rate > 38) count(B, { downBytes: 75_000_000, downPackets: 10 })
    await read()
  }
  Object.assign(usage.get(A) ?? {}, { address: '10.0.0.1' })
  clock.now += 1500
  count(A, { upPackets: 1 })
  const answer = async (rate: string) => (await get(`/accounting/billing${rate}`)).billing as Billing
  const billing = await answer('?rate=0.333')
  t.match(billing.items, [
    // Sorted, 39 and 40 Mbit/s are discarded.
    { mac: A, p95_mbps: 38, cost_usd: 12.65 },
    // Two samples are not 0; it was seen first in one of them.
    { mac: B, cost_usd: 0.67, p95_mbps: 2 },
  ])
  t.equal(billing.items[0]?.bytes_total, rates.reduce((sum, rate) => sum + rate + 1, 0) * 37_500_000)
  t.equal(billing.items[0]?.gb, (billing.items[0]?.bytes_total ?? 0) / 1e9)
  t.equal(billing.total_usd, 13.32)
  t.equal(billing.period, `${iso(MONTH)}/${iso(clock.now)}`)
  for (const rate of ['', '?rate=0', '?rate=0.0']) {
    const free = await answer(rate)
    t.equal(free.total_usd, 0)
    t.same(
      free.items.map(({ cost_usd }) => cost_usd),
      [0, 0],
    )
  }
  const { percentile_95th } = await get('/accounting/95th')
  t.match(percentile_95th as Percentile, { in_mbps: 1, out_mbps: 38 })
  const { summary } = (await get('/accounting/summary')) as { summary: Summary }
  t.match(summary, {
    total_vms: 2,
    active_ips: 1,
    total_bytes: billing.items.reduce((sum, one) => sum + one.bytes_total, 0),
  })

  const part = `start=${iso(MONTH + 10 * MINUTE)}&end=${iso(MONTH + 20 * MINUTE)}`
  const within = ((await get(`/accounting/summary?${part}`)).summary as Summary).total_bytes
  t.equal(within, ((rates[2] ?? 0) + (rates[3] ?? 0) + 2) * 37_500_000)
})

t.test('acct-09 counters that begin anew, an agent that was away, and a clock that goes back', async (t) => {
  const { count, read, get, clock, usage } = await flowsArea(t)
  const total = async (query = '') => ((await get(`/accounting/summary${query}`)).summary as Summary).total_bytes
  await read()
  clock.now += MINUTE
  count(A, { upBytes: 1000, upPackets: 1 })
  await read()
  await read()
  t.equal(await total(), 1000)

  usage.set(A, {
    ...{ mac: A, bound: true, born: 2, address: '0.0.0.0' },
    ...{ upBytes: 1500, upPackets: 1, downBytes: 0, downPackets: 0 },
  })
  clock.now += MINUTE
  t.equal(await total(), 2500, 'a reboot: the counter began at 0, and is higher already')
  count(A, { upBytes: 1, upPackets: 1 })
  clock.now -= HOUR
  await read()
  clock.now += HOUR
  t.equal(await total(), 2501, 'set back')

  // Three hours of silence, over a minute that has been read and a slot that has not.
  count(A, { upBytes: 36_000_001, upPackets: 36 })
  clock.now += 3 * HOUR
  t.equal(await total(), 36_002_502)
  const from = MONTH + HOUR
  t.equal(await total(`?start=${iso(from)}&end=${iso(from + HOUR)}`), 12_000_000, 'evenly, to the byte')

  // A month, of which all days are over but the last.
  count(A, { upBytes: 30 * 24 * 6000, upPackets: 24 * 30 })
  const before = await total()
  clock.now += 30 * 24 * HOUR
  t.equal(await total(`?start=${iso(MONTH)}`), before + 30 * 24 * 6000)
  const day = MONTH + 10 * 24 * HOUR
  t.equal(await total(`?start=${iso(day)}&end=${iso(day + 24 * HOUR)}`), 24 * 6000)
})
