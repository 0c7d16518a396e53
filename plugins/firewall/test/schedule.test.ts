/** Windows: how they are read, when they hold, when they open, how the kernel is told, and that REST does not show them. */

import t from 'tap'
import { fc } from '../../../test/property.ts'
import { NO_SCHEDULE, nextOpening, parseSchedule, type Schedule, scheduleHolds, scheduleText } from '../schedule.ts'
import { firewall } from './area.ts'

const at = (text: string) => new Date(text)
const once: Schedule = parseSchedule({ from: '2030-01-02T10:00:00Z', to: '2030-01-03T11:00:00Z' })
const day = parseSchedule({ from: '08:00', to: '17:30', daily: true })
const night = parseSchedule({ from: '22:00', to: '06:00', daily: true })

t.test('D70 what is read: RFC 3339 times, or times of the day in UTC', async (t) => {
  t.same(parseSchedule({ from: '2030-01-02T12:00:00+02:00', to: '2030-01-03T11:00:00.000Z' }), once)
  t.match(parseSchedule({ from: '2030-01-02T10:00:00.999Z', to: '2030-01-03T11:00:00Z' }), once)
  const bad: [string, string, boolean?][] = [
    ['2030-01-02T10:00:00Z', '2030-01-02T10:00:00Z'],
    ['2030-01-03T10:00:00Z', '2030-01-02T10:00:00Z'],
    ['2030-01-02', '2030-01-03'],
    ['2030-01-02T10:00:00', '2030-01-03T10:00:00'],
    ['2030-13-02T10:00:00Z', '2031-01-03T10:00:00Z'],
    ['2030-02-30T10:00:00Z', '2030-03-03T10:00:00Z'],
    ['08:00', '09:00'],
    ['', ''],
    ['8:00', '09:00', true],
    ['24:00', '09:00', true],
    ['08:60', '09:00', true],
    ['08:00', '08:00', true],
    ['2030-01-02T10:00:00Z', '2030-01-03T11:00:00Z', true],
    ['08:00" drop', '09:00', true],
  ]
  for (const [from, to, daily = false] of bad) {
    t.throws(() => parseSchedule({ from, to, daily }), { message: /^(from|to)\b/ }, `${from} to ${to}`)
  }
})

t.test('D70 when a window holds', async (t) => {
  const cases: [Schedule, string, boolean][] = [
    [NO_SCHEDULE, '1999-01-01T00:00:00Z', true],
    [once, '2030-01-02T09:59:59.999Z', false],
    [once, '2030-01-02T10:00:00.000Z', true],
    [once, '2030-01-02T10:00:00.500Z', true],
    [once, '2030-01-02T10:00:01.000Z', true],
    [once, '2030-01-03T11:00:00.000Z', true],
    [once, '2030-01-03T11:00:01.000Z', false],
    [day, '2030-05-05T07:59:59.999Z', false],
    [day, '2030-05-05T08:00:00.001Z', true],
    [day, '2030-05-05T17:30:00.000Z', true],
    [day, '2030-05-05T17:30:01.000Z', false],
    [night, '2030-05-05T21:59:59.999Z', false],
    [night, '2030-05-05T22:00:00.500Z', true],
    [night, '2030-05-05T23:59:59.999Z', true],
    [night, '2030-05-06T00:00:00.000Z', true],
    [night, '2030-05-06T05:59:59.999Z', true],
    [night, '2030-05-06T06:00:01.000Z', false],
    [night, '2030-05-06T12:00:00.000Z', false],
  ]
  for (const [schedule, time, holds] of cases) {
    t.equal(scheduleHolds(schedule, at(time)), holds, `${schedule.scheduleFrom} to ${schedule.scheduleTo} at ${time}`)
  }
})

t.test('D70 when a window opens next', async (t) => {
  const cases: [Schedule, string, string | undefined][] = [
    [NO_SCHEDULE, '2030-01-01T00:00:00Z', undefined],
    [once, '2030-01-01T00:00:00Z', '2030-01-02T10:00:00Z'],
    [once, '2030-01-02T10:00:00Z', undefined],
    [once, '2031-01-01T00:00:00Z', undefined],
    [day, '2030-12-31T07:59:59Z', '2030-12-31T08:00:00Z'],
    [day, '2030-12-31T08:00:00Z', '2031-01-01T08:00:00Z'],
    [day, '2030-12-31T23:00:00Z', '2031-01-01T08:00:00Z'],
    [night, '2030-12-31T03:00:00Z', '2030-12-31T22:00:00Z'],
    [night, '2030-12-31T22:00:01Z', '2031-01-01T22:00:00Z'],
  ]
  for (const [schedule, time, opening] of cases) {
    t.same(nextOpening(schedule, at(time)), opening && at(opening), `${schedule.scheduleFrom} after ${time}`)
  }
})

t.test('D70 whatever the window, it holds at the moment at which it opens, and not just before', async () => {
  const minute = fc.integer({ min: 0, max: 1439 })
  const clock = (of: number) => `${String(Math.floor(of / 60)).padStart(2, '0')}:${String(of % 60).padStart(2, '0')}`
  const time = fc.date({ min: at('2001-01-01T00:00:00Z'), max: at('2099-01-01T00:00:00Z'), noInvalidDate: true })
  fc.assert(
    fc.property(minute, minute, time, fc.nat(999), (from, to, now, ms) => {
      fc.pre(from !== to && (to + 1) % 1440 !== from)
      const schedule = parseSchedule({ from: clock(from), to: clock(to), daily: true })
      const opening = nextOpening(schedule, now)
      return (
        opening !== undefined &&
        opening > now &&
        opening.getTime() - now.getTime() <= 86_400_000 &&
        scheduleHolds(schedule, new Date(opening.getTime() + ms)) &&
        !scheduleHolds(schedule, new Date(opening.getTime() - 1))
      )
    }),
    { numRuns: 300 },
  )
  fc.assert(
    fc.property(time, fc.integer({ min: 1000, max: 10 ** 10 }), fc.nat(999), (from, length, ms) => {
      const to = new Date(from.getTime() + length)
      const schedule = parseSchedule({ from: from.toISOString(), to: to.toISOString() })
      const opening = nextOpening(schedule, new Date(from.getTime() - 2000))
      return (
        opening !== undefined &&
        scheduleHolds(schedule, new Date(opening.getTime() + Math.min(ms, length - 1))) &&
        !scheduleHolds(schedule, new Date(opening.getTime() - 1))
      )
    }),
    { numRuns: 300 },
  )
})

t.test('D70 how the kernel is told', async (t) => {
  t.equal(scheduleText(NO_SCHEDULE).trim(), '')
  t.equal(scheduleText(once).trim(), 'meta time "2030-01-02 10:00:00"-"2030-01-03 11:00:00"')
  t.equal(scheduleText(day).trim(), 'meta hour "08:00"-"17:30"')
  t.equal(scheduleText(night).trim(), 'meta hour { "22:00"-"23:59:59", "00:00"-"06:00" }')
  const evening = parseSchedule({ from: '22:00', to: '00:00', daily: true })
  t.equal(scheduleText(evening).trim(), 'meta hour { "22:00"-"23:59:59", "00:00" }')
})

t.test('D70 fw-34 a schedule is set and shown by the CLI only, and carries over on PUT', async (t) => {
  const { call, control, create, planned, events } = await firewall(t)
  const rule = await create({ action: 'drop', dest_port: 80 })
  const path = '/control/v1/firewall/rules'
  const window = { from: '22:00', to: '06:00', daily: true }
  events()
  const set = await control('PUT', `${path}/1/schedule`, window)
  t.same([set.status, set.body], [200, { status: 'updated', rule: { ...rule, schedule: window } }])
  t.same(events(), ['rule.updated'])
  t.match(planned()[0]?.text, /meta hour \{ "22:00"-"23:59:59", "00:00"-"06:00" \} drop$/)
  t.same((await call('GET', '/api/v1/rules/1')).body, rule, 'REST does not show it')
  t.same((await call('GET', '/api/v1/rules')).body.rules, [rule])

  const { body } = await call('PUT', '/api/v1/rules/1', { action: 'accept', dest_port: 81 })
  t.same(Object.keys(body.rule as object).includes('schedule'), false, 'nor does PUT')
  const listed = (await control('GET', path)).body.rules
  t.same(listed, [{ ...(body.rule as object), schedule: window }], 'fw-34 it carried over')
  t.match(planned()[0]?.text, /dport 81 meta hour \{ "22:00"-"23:59:59", "00:00"-"06:00" \} accept$/)

  for (const bad of [{ from: '22:00', to: '06:00' }, { from: 'x', to: 'y', daily: true }, { from: '22:00' }, {}]) {
    t.equal((await control('PUT', `${path}/2/schedule`, bad)).status, 400, JSON.stringify(bad))
  }
  t.same((await control('GET', path)).body.rules, listed, 'a refused one changes nothing')
  t.equal((await control('PUT', `${path}/1/schedule`, window)).status, 404, 'the old id is gone')
  t.equal((await call('PUT', `${path}/2/schedule`, window)).status, 404, 'there is no such path over REST')
  t.equal((await control('DELETE', `${path}/2/schedule`)).status, 200)
  t.same((await control('GET', path)).body.rules, [body.rule])
  t.match(planned()[0]?.text, /dport 81 accept$/)
})
