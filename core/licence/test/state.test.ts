import t from 'tap'
import type { LicencePayload } from '../file.ts'
import { CAPABILITIES, PLAN } from '../plan.ts'
import { type LicenceView, licenceCautions, licenceRefusal, licenceState } from '../state.ts'
import { DAY_MS, END, HARDWARE, licence, payload } from './vendor.ts'

type Installed = Extract<LicenceView, { installed: true }>

/** The view `ms` before the end of the licence. */
function at(ms: number, changes: Partial<LicencePayload> = {}, mismatchSince?: Date): Installed {
  const now = new Date(END - ms)
  const view = licenceState({
    licence: licence(changes),
    now,
    highWater: new Date(0),
    hardwareId: HARDWARE,
    hardwareMismatchSince: mismatchSince,
  })
  if (!view.installed) throw new Error('not installed')
  return view
}

const SECOND = 1000

t.test('without a licence only installed is present', async (t) => {
  const now = new Date()
  t.same(licenceState({ now, highWater: now, hardwareId: HARDWARE }), { installed: false })
})

t.test('lic-02 lic-06 lic-07 every field is present, with its type', async (t) => {
  t.same(at(100 * DAY_MS, { features: { dns: true, bgp: false, something_newer: true } }), {
    installed: true,
    serial_number: 'LIC-1',
    plan: 'fabric',
    release_channel: 'stable',
    valid_until: '2030-01-31T00:00:00Z',
    state: 'active',
    days_remaining: 100,
    expired: false,
    mutations_allowed: true,
    hardware_grace: false,
    max_bandwidth_gbps: 0,
    features: { ...Object.fromEntries(CAPABILITIES.map((name) => [name, false])), dns: true },
  })
  t.equal(at(DAY_MS, { max_bandwidth_gbps: 25 }).max_bandwidth_gbps, 25)
  t.equal(at(DAY_MS, { valid_until: '2030-01-31T01:00:00+01:00' }).valid_until, '2030-01-31T00:00:00Z')
})

t.test('lic-04 lic-05 lic-13 lic-15 state-10 the licence by the clock', async (t) => {
  const rows: [title: string, left: number, state: string, days: number, expired: boolean, allowed: boolean][] = [
    ['a year', 365 * DAY_MS, 'active', 365, false, true],
    ['30 days and a second', 30 * DAY_MS + SECOND, 'active', 30, false, true],
    ['30 days', 30 * DAY_MS, 'warning', 30, false, true],
    ['a day less a second', DAY_MS - SECOND, 'warning', 0, false, true],
    ['a second', SECOND, 'warning', 0, false, true],
    ['the end', 0, 'grace', -1, true, true],
    ['a second past', -SECOND, 'grace', -1, true, true],
    ['a day past', -DAY_MS, 'grace', -1, true, true],
    ['a day and a second past', -DAY_MS - SECOND, 'grace', -2, true, true],
    ['14 days past less a second', -14 * DAY_MS + SECOND, 'grace', -14, true, true],
    ['14 days past', -14 * DAY_MS, 'frozen', -14, true, false],
    ['a year past', -365 * DAY_MS, 'frozen', -365, true, false],
  ]
  for (const [title, left, state, days_remaining, expired, mutations_allowed] of rows) {
    const view = at(left)
    const { state: s, days_remaining: d, expired: e, mutations_allowed: m } = view
    t.same({ s, d, e, m }, { s: state, d: days_remaining, e: expired, m: mutations_allowed }, title)
  }
})

t.test('lic-04 a short licence warns in the last third of its term, so none begins with a warning', async (t) => {
  const term = (days: number) => ({ valid_from: new Date(END - days * DAY_MS).toISOString().replace('.000', '') })
  for (const [days, warns] of [
    [30, 10],
    [60, 20],
    [90, 30],
    [365, 30],
  ] as const) {
    t.equal(at(days * DAY_MS, term(days)).state, 'active', `${days} days, on the first`)
    t.equal(at(warns * DAY_MS + SECOND, term(days)).state, 'active', `${days} days`)
    t.equal(at(warns * DAY_MS, term(days)).state, 'warning', `${days} days`)
  }
})

t.test('state-10 a clock that was set back cannot thaw', async (t) => {
  const frozen = { licence: licence(), highWater: new Date(END + 15 * DAY_MS), hardwareId: HARDWARE }
  t.match(licenceState({ ...frozen, now: new Date(END - 100 * DAY_MS) }), { state: 'frozen', days_remaining: -15 })
})

t.test('lic-14 bound to other hardware: hardware_grace, and frozen 14 days after it was first seen', async (t) => {
  const bound = { hardware_id: 'other' }
  const days = (n: number) => new Date(END - 100 * DAY_MS - n * DAY_MS)
  t.match(at(100 * DAY_MS, bound), { state: 'active', hardware_grace: true, mutations_allowed: true })
  t.match(at(10 * DAY_MS, bound), { state: 'warning', hardware_grace: true, mutations_allowed: true })
  t.match(at(100 * DAY_MS, bound, days(13.99)), { state: 'active', hardware_grace: true })
  const frozen = {
    state: 'frozen',
    hardware_grace: true,
    mutations_allowed: false,
    expired: false,
    days_remaining: 100,
  }
  t.match(at(100 * DAY_MS, bound, days(14)), frozen)
  t.match(at(-DAY_MS, bound), { state: 'grace', hardware_grace: true, expired: true })
  t.match(at(100 * DAY_MS, { hardware_id: HARDWARE }, days(99)), { state: 'active', hardware_grace: false })
  t.match(at(100 * DAY_MS, {}, days(99)), { state: 'active', hardware_grace: false }, 'bound to nothing')
})

t.test(
  'a licence that begins in the future is not installed yet, but a slow clock is forgiven 5 minutes',
  async (t) => {
    const begins = Date.parse(payload().valid_from)
    const view = (ms: number) =>
      licenceState({ licence: licence(), now: new Date(ms), highWater: new Date(0), hardwareId: HARDWARE })
    t.same(view(begins - 301 * SECOND), { installed: false })
    t.match(view(begins - 299 * SECOND), { installed: true, state: 'active' })
  },
)

t.test('cautions tell what the view cannot', async (t) => {
  t.same(licenceCautions(licence(), new Date(END), HARDWARE), [])
  t.match(licenceCautions(licence(), new Date(0), HARDWARE), [/valid from 2029-01-31T00:00:00Z.*1970-01-01T00:00:00Z/])
  const bound = licence({ hardware_id: 'other' })
  t.match(licenceCautions(bound, new Date(END), HARDWARE), [
    /bound to hardware other, and this is 0123.*ask the vendor/,
  ])
  t.match(licenceCautions(bound, new Date(END), ''), [/has no hardware id/])
})

const PAUSED = 'changes are paused on this server; your machines keep running'

t.test('a frozen licence refuses changes, with a word of its own for tenants', async (t) => {
  t.same(licenceRefusal(at(-14 * DAY_MS)), {
    operator: 'license inactive: changes are frozen until the license is renewed; existing workloads keep running',
    tenant: PAUSED,
  })
  for (const left of [100, 10, -5]) t.equal(licenceRefusal(at(left * DAY_MS)), undefined)
})

t.test('without a licence gated paths and changes are refused', async (t) => {
  const none: LicenceView = { installed: false }
  t.same(licenceRefusal(none), { operator: 'no license installed: changes need an active license', tenant: PAUSED })
  for (const gate of PLAN) {
    t.equal(licenceRefusal(none, gate)?.operator, `no license installed: ${gate.title} requires a license`)
  }
})

t.test('gate-01 a missing feature is named; an entitled path stays open even when frozen', async (t) => {
  for (const gate of PLAN) {
    const without = { features: { ...payload().features, [gate.capability]: false } }
    t.equal(licenceRefusal(at(DAY_MS, without), gate)?.operator, `feature not in plan: ${gate.title}`)
    t.equal(licenceRefusal(at(-20 * DAY_MS, without), gate)?.operator, `feature not in plan: ${gate.title}`)
    t.equal(licenceRefusal(at(-20 * DAY_MS), gate), undefined)
  }
})
