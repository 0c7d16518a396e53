/** The tables by source address, after a crowd of addresses: they are bounded, and they empty themselves. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { openConfig } from '../../config.ts'
import { CORE_KEYS } from '../../keys.ts'
import { clientAt } from '../client.ts'
import { forgetting } from '../forget.ts'
import { lockout } from '../lockout.ts'
import { rate } from '../rate.ts'

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')
const configWith = (values: Record<string, string> = {}) =>
  openConfig(CORE_KEYS, { file: '/nonexistent', overrides: () => values, environment: {} })

/** Keys of 100 000 source addresses, half of them IPv6, each of another /64. */
const crowd = Array.from({ length: 50_000 }, (_, i) => [
  clientAt(`10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`).key,
  clientAt(`2001:db8:${(i >> 8).toString(16)}:${i & 255}::1`).key,
]).flat()

function heapMiB(): number {
  collect()
  return process.memoryUsage().heapUsed / 2 ** 20
}

t.test('D36 D37 100 000 addresses cost some MiB while they count, and nothing once they do not', async (t) => {
  t.equal(new Set(crowd).size, 100_000)
  const clock = { ms: Date.UTC(2030, 0, 1) }
  const now = () => clock.ms
  const locked = lockout(configWith({ api_auth_fail_limit: '2' }), now)
  const rated = rate(configWith(), now)
  const tables: [string, () => void, () => unknown, number][] = [
    ['failures', () => crowd.forEach((key) => void locked.fail(key)), () => locked.refusal('192.0.2.1'), 300],
    [
      'blocks',
      () => crowd.concat(crowd).forEach((key) => void locked.fail(key)),
      () => locked.refusal('192.0.2.1'),
      900,
    ],
    ['buckets', () => crowd.forEach((key) => void rated.take(key)), () => rated.take('192.0.2.1'), 60],
  ]
  for (const [what, knock, useOnce, seconds] of tables) {
    const before = heapMiB()
    knock()
    const during = heapMiB() - before
    t.ok(during > 2 && during < 48, `${what}: ${during.toFixed(1)} MiB`)
    clock.ms += seconds * 1000
    useOnce()
    const after = heapMiB() - before
    t.ok(after < 1, `${what}: ${after.toFixed(1)} MiB once they are over`)
  }
  t.same(locked.blocks(), [])
})

t.test('D36 what still counts is not forgotten', async (t) => {
  const clock = { ms: Date.UTC(2030, 0, 1) }
  const locked = lockout(configWith({ api_auth_fail_limit: '2', api_auth_fail_window: '120' }), () => clock.ms)
  locked.fail('192.0.2.1')
  locked.fail('192.0.2.2')
  locked.fail('192.0.2.2')
  clock.ms += 61_000
  t.equal(locked.refusal('192.0.2.1'), undefined)
  t.equal(locked.refusal('192.0.2.2')?.status, 429)
  locked.fail('192.0.2.1')
  t.equal(locked.refusal('192.0.2.1')?.status, 429, 'the failure of a minute ago was remembered')
  clock.ms += 838_000
  t.equal(locked.refusal('192.0.2.2')?.status, 429)
  clock.ms += 1000
  t.equal(locked.refusal('192.0.2.2'), undefined)
  t.equal(locked.refusal('192.0.2.1')?.status, 429)
})

t.test('a table is looked through once a minute, also after the clock was set back', async (t) => {
  const table = new Map([['a', 1]])
  let looks = 0
  const forget = forgetting(table, () => {
    looks++
    return false
  })
  const base = Date.UTC(2030, 0, 1)
  for (const [time, expected] of [
    [base, 1],
    [base + 59_999, 1],
    [base + 60_000, 2],
    [base - 3_600_000, 3],
    [base - 3_590_000, 3],
  ] as const) {
    forget(time)
    t.equal(looks, expected)
  }
})

t.test('D37 a full table of buckets that fill up one by one makes room for many at once', async (t) => {
  let ms = 0
  const rated = rate(configWith({ api_rate_limit: '1', api_rate_burst: '1' }), () => ms)
  let refusals = 0
  const start = process.cpuUsage()
  // At this pace one bucket becomes full again for each that is new, so that there are always one or two to drop.
  for (let i = 0; i < 160_000; i++) {
    ms = i * 0.60001
    if (rated.take(`${i}`) !== undefined) refusals++
  }
  const { user } = process.cpuUsage(start)
  t.equal(refusals, 0)
  t.ok(user < 10_000_000, `${user / 1e6} s of CPU, where looking through the table each time takes minutes`)
})
