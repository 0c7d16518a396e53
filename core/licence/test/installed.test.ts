import { createPrivateKey } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { evaluationPayload } from '../evaluation.ts'
import { signLicence } from '../file.ts'
import { hardwareId } from '../hardware.ts'
import { CAPABILITIES } from '../plan.ts'
import { DAY_MS, END, HARDWARE, node, payload, vendorKeys } from './vendor.ts'

const MINUTE = 60_000

/** Lets saves that nobody waits for come to their end. */
const settled = () => new Promise(setImmediate)

t.test('a node without a licence', async (t) => {
  const { start, file } = node(t)
  const installed = start()
  t.same(installed.view(), { installed: false })
  t.equal(installed.reason(), `no licence is installed (${file})`)
})

t.test('install takes effect at once, survives a restart, and only root can read the file', async (t) => {
  const { start, file, sign } = node(t)
  const installed = start()
  t.match(await installed.install(sign()), { installed: true, state: 'active', days_remaining: 100 })
  t.match(installed.view(), { state: 'active' })
  t.equal(installed.reason(), undefined)
  t.equal(statSync(file).mode & 0o777, 0o600)
  t.same(readdirSync(dirname(file)), ['license.json'], 'no temporary file is left')
  t.match(start().view(), { state: 'active', serial_number: 'LIC-1' })
})

t.test('lic-16 state-10 active, warning, grace, frozen by the clock, and a renewal lifts the freeze', async (t) => {
  const { start, clock, sign } = node(t)
  const installed = start()
  await installed.install(sign())
  const seen = [40, 20, -1, -15].map((days) => {
    clock.ms = END - days * DAY_MS
    const view = installed.view()
    return view.installed && view.state
  })
  t.same(seen, ['active', 'warning', 'grace', 'frozen'])
  const renewed = await installed.install(sign({ serial_number: 'LIC-2', valid_until: '2031-01-31T00:00:00Z' }))
  t.match(renewed, { state: 'active', serial_number: 'LIC-2', mutations_allowed: true })
  t.match(installed.view(), { state: 'active', serial_number: 'LIC-2' })
})

t.test('a licence that is refused leaves the installed one alone', async (t) => {
  const { start, file, sign } = node(t)
  const installed = start()
  await installed.install(sign())
  const before = readFileSync(file, 'utf8')
  const early = sign({ valid_from: '2030-01-31T00:00:00Z', valid_until: '2031-01-31T00:00:00Z' })
  await t.rejects(installed.install('{}'), { code: 'LICENCE_MALFORMED' })
  await t.rejects(installed.install(signLicence(payload(), vendorKeys().privateKey)), { code: 'LICENCE_SIGNATURE' })
  await t.rejects(installed.install(early), {
    code: 'LICENCE_NOT_YET_VALID',
    message: /valid from 2030-01-31T00:00:00Z/,
  })
  t.equal(readFileSync(file, 'utf8'), before)
  t.match(installed.view(), { state: 'active' })
})

t.test('a licence that cannot be stored is not installed', async (t) => {
  const { start, stored, file, sign } = node(t)
  const installed = start()
  stored.failing = true
  await t.rejects(installed.install(sign()), /disk full/)
  t.notOk(existsSync(file))
  t.same(installed.view(), { installed: false })
  t.match(installed.reason(), /cannot be stored: disk full/)
})

t.test('a bad file is not installed, and the reason says why', async (t) => {
  const { start, file, sign } = node(t)
  const reasonOf = (text: string) => {
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
    const installed = start()
    t.same(installed.view(), { installed: false })
    return installed.reason()
  }
  t.match(reasonOf('rubbish'), /not JSON/)
  t.match(reasonOf(' '.repeat(70_000)), /larger than 64 KiB/)
  t.match(reasonOf(signLicence(payload(), vendorKeys().privateKey)), /bad licence signature/)
  t.match(reasonOf(sign({ valid_from: '2030-01-01T00:00:00Z' })), /valid from 2030-01-01T00:00:00Z/)
  rmSync(file)
  mkdirSync(file)
  t.match(start().reason(), /cannot be read: EISDIR/)
})

t.test('the reason of a bad signature names the trusted keys that could not be used', async (t) => {
  const { start, dir, sign } = node(t)
  await start().install(sign())
  const junk = join(dir, 'junk.pub')
  writeFileSync(junk, 'junk')
  const missing = join(dir, 'missing.pub')
  t.match(
    start({ trustedKeys: () => [missing, junk] }).reason(),
    /missing\.pub cannot be read.*junk\.pub cannot be read/,
  )
  t.match(start({ trustedKeys: () => [] }).reason(), /set license_trusted_keys/)
  const trusted = join(dir, 'vendor.pub')
  t.match(start({ trustedKeys: () => [missing, trusted] }).view(), { installed: true }, 'the other keys still count')
})

t.test('reload sees a file that was replaced by hand', async (t) => {
  const { start, file, sign } = node(t)
  const installed = start()
  await installed.install(sign())
  writeFileSync(file, 'rubbish')
  t.match(installed.view(), { installed: true })
  t.same(installed.reload(), { installed: false })
  writeFileSync(file, sign())
  t.match(installed.reload(), { installed: true })
})

t.test('state-10 a clock that was set back cannot thaw, not even by a restart', async (t) => {
  const { start, clock, stored, sign } = node(t)
  const installed = start()
  await installed.install(sign())
  clock.ms = END + 15 * DAY_MS
  t.match(installed.view(), { state: 'frozen' })
  await settled()
  clock.ms = END - 100 * DAY_MS
  t.match(installed.view(), { state: 'frozen' })
  t.match(installed.reason(), /clock was set back.*2030-02-15T00:00:00Z/)
  t.same(stored.marks.highWater, new Date(END + 15 * DAY_MS))
  t.match(start().view(), { state: 'frozen' })
  t.match(await start().install(sign()), { state: 'frozen' }, 'the old licence again does not help')
})

t.test('the view is computed once a second, and the high-water mark stored once a minute', async (t) => {
  const { start, clock, stored, sign } = node(t)
  const installed = start()
  await installed.install(sign())
  t.equal(installed.view(), installed.view(), 'the same object')
  await settled()
  const before = stored.saves
  for (let i = 0; i < 59; i++) {
    clock.ms += 1000
    installed.view()
  }
  await settled()
  t.equal(stored.saves, before)
  clock.ms += 1000
  installed.view()
  await settled()
  t.equal(stored.saves, before + 1)
  stored.failing = true
  clock.ms += MINUTE
  t.match(installed.view(), { state: 'active' }, 'a failing store does not disturb the view')
  await settled()
  t.match(installed.reason(), /disk full/)
  stored.failing = false
  clock.ms += MINUTE
  installed.view()
  await settled()
  t.equal(installed.reason(), undefined)
})

t.test('lic-14 other hardware: 14 days from when it was first seen, kept across restarts', async (t) => {
  const { start, clock, stored, sign } = node(t)
  await start().install(sign({ hardware_id: HARDWARE }))
  t.match(start().view(), { state: 'active', hardware_grace: false })
  const moved = { hardwareId: 'f'.repeat(32) }
  t.match(start(moved).view(), { state: 'active', hardware_grace: true, mutations_allowed: true })
  t.match(start(moved).reason(), /bound to hardware 0123.*this is ffff/)
  await settled()
  t.same(stored.marks.hardwareMismatchSince, new Date(clock.ms))
  clock.ms += 13 * DAY_MS
  t.match(start(moved).view(), { state: 'active', hardware_grace: true })
  clock.ms += DAY_MS
  t.match(start(moved).view(), { state: 'frozen', hardware_grace: true, mutations_allowed: false })
  t.match(start().view(), { state: 'active', hardware_grace: false }, 'back on its hardware')
  await settled()
  t.equal(stored.marks.hardwareMismatchSince, undefined)
})

t.test('evaluation: every feature for 30 days, made and trusted on this node only', async (t) => {
  const { start, clock, evaluationKey, file, stored } = node(t)
  const installed = start()
  const view = await installed.evaluate()
  t.match(view, { plan: 'evaluation', release_channel: 'stable', max_bandwidth_gbps: 0, days_remaining: 30 })
  t.same(view.installed && view.features, Object.fromEntries(CAPABILITIES.map((name) => [name, true])))
  t.equal(statSync(evaluationKey).mode & 0o777, 0o600)
  t.equal(statSync(file).mode & 0o777, 0o600)
  t.same(stored.marks.evaluationUsedAt, new Date(clock.ms))
  t.match(start().view(), { plan: 'evaluation' }, 'after a restart')
  const text = readFileSync(file, 'utf8')
  await t.rejects(node(t).start().install(text), { code: 'LICENCE_SIGNATURE' }, 'another node')
  clock.ms += 44 * DAY_MS
  t.match(installed.view(), { state: 'frozen' })
})

t.test('evaluation is given once, and never in the place of another licence', async (t) => {
  const once = node(t)
  const installed = once.start()
  const both = await Promise.allSettled([installed.evaluate(), installed.evaluate()])
  t.same(
    both.map((outcome) => outcome.status),
    ['fulfilled', 'rejected'],
    'two at the same time',
  )
  rmSync(once.file)
  rmSync(once.evaluationKey)
  once.clock.ms += 90 * DAY_MS
  await t.rejects(once.start().evaluate(), { code: 'LICENCE_EVALUATION', message: /began.*no second one/ })

  const licensed = node(t)
  await licensed.start().install(licensed.sign())
  await t.rejects(licensed.start().evaluate(), { message: /already installed/ })
  licensed.clock.ms = END + 20 * DAY_MS
  await t.rejects(licensed.start().evaluate(), { message: /already installed/ }, 'a freeze is not lifted by it')
  const untrusted = licensed.start({ trustedKeys: () => [] })
  await t.rejects(untrusted.evaluate(), { message: /cannot be used.*set license_trusted_keys/ })
  t.match(licensed.start().view(), { serial_number: 'LIC-1' }, 'the file is untouched')
})

t.test("abuse of the node's own key is refused", async (t) => {
  const { start, clock, evaluationKey, stored } = node(t)
  const installed = start()
  await installed.evaluate()
  const key = createPrivateKey(readFileSync(evaluationKey, 'utf8'))
  const began = new Date(clock.ms)
  const later = new Date(clock.ms + DAY_MS)
  const evaluation = evaluationPayload(began, HARDWARE)
  const until = (ms: number) => ({ valid_until: new Date(ms).toISOString() })
  const rows: [string, ReturnType<typeof payload>, RegExp][] = [
    ['for any hardware', evaluationPayload(began, ''), /names no hardware_id/],
    ['renamed', { ...evaluation, plan: 'fabric' }, /cannot sign for plan fabric/],
    ['prolonged', { ...evaluation, ...until(clock.ms + 30 * DAY_MS + 1) }, /longer than 30 days/],
    ['begun again', evaluationPayload(later, HARDWARE), /longer than 30 days/],
    [
      'begun earlier, and longer',
      { ...evaluation, valid_from: '2020-01-01T00:00:00Z', ...until(clock.ms + 29 * DAY_MS) },
      /longer than 30 days/,
    ],
  ]
  clock.ms += 2 * DAY_MS
  for (const [title, body, message] of rows) {
    await t.rejects(installed.install(signLicence(body, key)), { code: 'LICENCE_EVALUATION', message }, title)
  }
  t.match(await installed.install(signLicence(evaluation, key)), { days_remaining: 28 }, 'the same once more is fine')
  stored.marks = {}
  t.same(start().view(), { installed: false }, 'without its mark it counts for nothing')
  t.match(start().reason(), /has not begun its evaluation/)
})

t.test('an evaluation that cannot be remembered is not given, and can be asked for again', async (t) => {
  const { start, stored, file } = node(t)
  const installed = start()
  stored.failing = true
  await t.rejects(installed.evaluate(), /disk full/)
  t.notOk(existsSync(file))
  t.same(installed.view(), { installed: false })
  stored.failing = false
  t.match(await installed.evaluate(), { plan: 'evaluation' })
})

t.test('an evaluation cut short before its mark is begun anew', async (t) => {
  const { start, stored } = node(t)
  await start().evaluate()
  stored.marks = {}
  t.match(await start().evaluate(), { plan: 'evaluation' })
})

t.test('an evaluation key that cannot be used does not harm a vendor licence', async (t) => {
  const { start, evaluationKey, sign } = node(t)
  mkdirSync(dirname(evaluationKey), { recursive: true })
  writeFileSync(evaluationKey, 'junk')
  chmodSync(evaluationKey, 0o600)
  await t.rejects(start().evaluate(), { code: 'LICENCE_KEY', message: /remove it and try again/ })
  t.match(await start().install(sign()), { state: 'active' })
})

t.test('the hardware id comes from the machine id, and is empty without one', async (t) => {
  const id = hardwareId(() => '3d1219c7c4c5404aaa1f6d2a48adfda4\n')
  t.match(id, /^[0-9a-f]{32}$/)
  t.equal(
    hardwareId(() => '3d1219c7c4c5404aaa1f6d2a48adfda4'),
    id,
  )
  t.not(
    hardwareId(() => 'another'),
    id,
  )
  for (const text of ['', '\n', 'uninitialized\n']) {
    t.equal(
      hardwareId(() => text),
      '',
    )
  }
  const missing = () => {
    throw new Error('ENOENT')
  }
  t.equal(hardwareId(missing), '')
})
