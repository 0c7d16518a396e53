/** What is asked and counted beyond all measure: far windows, invented MACs and addresses, wrong clocks, many at once. */
import { sql } from 'drizzle-orm'
import t from 'tap'
import type { Db } from '../../../core/area.ts'
import { system } from '../../../core/state/events.ts'
import { fold, overdueDay } from '../fold.ts'
import { dayOf, slotOf } from '../keys.ts'
import { queries } from '../queries.ts'
import { takeReading } from '../record.ts'
import type { Billing, Summary } from '../schemas.ts'
import { type FlowsArea, flowsArea, MINUTE, MONTH, P } from './area.ts'

const DAY = 24 * 60 * MINUTE
const iso = (ms: number) => new Date(ms).toISOString()
const mac = (n: number) => `02:ce:00:00:00:0${n}`
const summary = async ({ get }: FlowsArea, query = '') => (await get(`/accounting/summary${query}`)).summary as Summary
const change = ({ agent }: FlowsArea, rule: (tx: Db) => unknown) =>
  agent.pipeline.mutate('flows', system('test'), async (tx) => {
    await rule(tx)
    return { result: undefined, touch: [], events: [] }
  })
/** Reads, with those warnings and errors that are logged. */
async function logged(area: FlowsArea): Promise<string[]> {
  const said: string[] = []
  const note = (_: unknown, text: string) => void said.push(text)
  const log = { warn: note, error: note } as unknown as Parameters<typeof takeReading>[3]
  await change(area, (tx) => takeReading(tx, area.plane, new Date(area.clock.now), log))
  return said
}

t.test('acct-02 acct-06 D92 a window as far as time can be written tells of each MAC its own', async (t) => {
  const area = await flowsArea(t)
  const { clock, count, read, get, agent } = area
  await read()
  for (let day = 0; day < 3; day++) {
    for (const n of [1, 2, 3]) count(mac(n), { upBytes: n * 1_000_000, upPackets: 1, downBytes: 5000, downPackets: 1 })
    clock.now += DAY
    await read()
  }
  for (let day = overdueDay(agent.store.read); day !== undefined; day = overdueDay(agent.store.read)) {
    const one = day
    await agent.pipeline.mutate('flows', system('test'), (tx) => fold(tx, one))
  }
  t.ok(queries(agent.store.read).anyDay.get({ from: 0, to: Number.MAX_SAFE_INTEGER }), 'some days are folded')
  const [first, last] = ['0001-01-01T00:00:00Z', '9999-12-31T00:00:00Z']
  const bytes = [1, 2, 3].map((n) => 3 * (n * 1_000_000 + 5000))
  for (const [start, end] of [
    [first, last],
    [first, iso(clock.now)],
    [iso(MONTH), last],
  ]) {
    const { items } = (await get(`/accounting/billing?start=${start}&end=${end}&rate=1`)).billing as Billing
    t.same(
      items.map((item) => item.bytes_total),
      bytes,
      `${start} to ${end}`,
    )
    const told = await summary(area, `?start=${start}&end=${end}`)
    t.match(told, { total_vms: 3, total_bytes: bytes.reduce((sum, one) => sum + one, 0) })
    await get(`/accounting/95th?start=${start}&end=${end}`)
  }
  for (const [start, end] of [
    [first, '0001-01-02T00:00:00Z'],
    ['9999-12-30T00:00:00Z', last],
  ]) {
    t.match(await get(`/accounting/billing?start=${start}&end=${end}`), { billing: { items: [] } })
    t.match(await summary(area, `?start=${start}&end=${end}`), { total_vms: 0, total_bytes: 0, active_ips: 0 })
  }
})

t.test('acct-06 an end before the running month asks for a start', async (t) => {
  const { call } = await flowsArea(t)
  const { status, body } = await call('GET', `${P}/accounting/summary?end=2029-05-01T00:00:00Z`)
  t.equal(status, 400)
  t.equal(body.error, 'end: is before the running month; give start, too')
})

t.test('acct-09 invented MACs take no number of bound ones, and those that are gone make room', async (t) => {
  const area = await flowsArea(t)
  const { count, usage, agent, get } = area
  const known = (n: number) => queries(agent.store.read).mac.get({ mac: mac(n) })?.id
  const open = (n: number) => {
    count(mac(n), { upBytes: 1000, upPackets: 1 })
    Object.assign(usage.get(mac(n)) ?? {}, { bound: false })
  }
  await change(area, (tx) =>
    tx.run(sql`with recursive n(id) as (select 1 union all select id + 1 from n where id < 65536)
      insert into flows_macs (id, mac, first_slot) select id, 'invented ' || id, 0 from n`),
  )
  open(1)
  open(2)
  count(mac(3), { upBytes: 1000, upPackets: 1 })
  t.match(await logged(area), [/too many MACs/])
  t.same(await logged(area), [], 'it is said once')
  t.equal(queries(agent.store.read).reading.get()?.refused, 2)
  t.same([known(1), known(2), known(3)], [undefined, undefined, 65_537])

  await change(area, (tx) => tx.run(sql`delete from flows_macs where id in (1, 2, 700, 701, 65536)`))
  for (const n of [4, 5, 6, 7]) open(n)
  t.same(await logged(area), [])
  const numbers = [1, 2, 4, 5, 6, 7].map(known)
  t.equal(numbers.filter((id) => id === undefined).length, 1, 'one more than has room')
  t.same(
    numbers.filter((id) => id !== undefined).sort((a = 0, b = 0) => a - b),
    [1, 2, 700, 701, 65_536],
  )
  t.equal(queries(agent.store.read).reading.get()?.refused, 1)
  const { items } = (await get(`/accounting/billing?start=${iso(MONTH - DAY)}&end=${iso(MONTH + DAY)}`))
    .billing as Billing
  t.equal(items.length, 6)
})

t.test('acct-02 of each MAC the last 64 addresses are kept, until the slot that they were seen in', async (t) => {
  const area = await flowsArea(t)
  const { count, usage, read, clock } = area
  await read()
  const send = async (address: string) => {
    clock.now += 10 * MINUTE
    count(mac(1), { upBytes: 1000, upPackets: 1 })
    Object.assign(usage.get(mac(1)) ?? {}, { address })
    await read()
  }
  await send('10.0.0.0')
  t.equal((await summary(area, `?start=${iso(MONTH + 5 * MINUTE)}&end=${iso(clock.now)}`)).active_ips, 1)
  t.equal((await summary(area, `?start=${iso(clock.now)}&end=${iso(clock.now + MINUTE)}`)).active_ips, 0)
  for (let n = 1; n < 64; n++) await send(`10.0.0.${n}`)
  await send('10.0.0.0')
  t.equal((await summary(area)).active_ips, 64)
  for (let n = 64; n < 80; n++) await send(`10.0.0.${n}`)
  t.equal((await summary(area)).active_ips, 64)
  const { read: db } = area.agent.store
  const macId = queries(db).mac.get({ mac: mac(1) })?.id
  const left = queries(db)
    .addressesOf.all({ macId })
    .map(({ address }) => address)
  t.equal(left.length, 64)
  t.ok(left.includes('10.0.0.0') && left.includes('10.0.0.79') && !left.includes('10.0.0.1'), 'the oldest went')
})

t.test('acct-09 a clock that was far ahead is not waited for', async (t) => {
  const area = await flowsArea(t)
  const { count, read, clock, get } = area
  await read()
  clock.now += 40 * DAY
  count(mac(1), { upBytes: 1000, upPackets: 1 })
  t.same(await logged(area), [])
  clock.now = MONTH + 10 * MINUTE
  t.match(await logged(area), [/ahead/])
  t.same(await logged(area), [])
  count(mac(1), { upBytes: 300_000_000, upPackets: 1 })
  clock.now += 10 * MINUTE
  t.same(await logged(area), [])
  clock.now = 0
  t.same(await logged(area), [], 'a node that has lost its time waits for it')
  clock.now = MONTH + 20 * MINUTE
  t.equal(queries(area.agent.store.read).reading.get()?.at, clock.now)
  const window = `?start=${iso(MONTH + 10 * MINUTE)}&end=${iso(MONTH + 20 * MINUTE)}`
  const { items } = (await get(`/accounting/billing${window}`)).billing as Billing
  t.match(items, [{ mac: mac(1), bytes_total: 300_000_000, p95_mbps: 4 }])
  t.equal(queries(area.agent.store.read).mac.get({ mac: mac(1) })?.firstSlot, slotOf(MONTH))
  count(mac(2), { upBytes: 1000, upPackets: 1 })
  clock.now += 50 * DAY
  await read()
  clock.now -= 50 * DAY
  await read()
  t.equal(queries(area.agent.store.read).mac.get({ mac: mac(2) })?.firstSlot, slotOf(MONTH + 20 * MINUTE))
  t.equal(dayOf(slotOf(queries(area.agent.store.read).reading.get()?.at ?? 0)), dayOf(slotOf(MONTH)))
})

t.test('acct-01 of many that ask at once one reads the counters', async (t) => {
  const area = await flowsArea(t)
  const { plane, clock, count } = area
  const { usage } = plane.traffic
  let readings = 0
  Object.assign(plane.traffic, {
    usage: async () => {
      readings++
      await new Promise(setImmediate)
      return usage()
    },
  })
  clock.now += MINUTE
  count(mac(1), { upBytes: 1000, upPackets: 1 })
  const answers = await Promise.all(Array.from({ length: 20 }, () => summary(area)))
  t.same(
    answers.map(({ total_bytes }) => total_bytes),
    Array(20).fill(1000),
  )
  t.equal(readings, 1)
})
