import type { VipBackend, VipEntry } from '../../dataplane/bpf/lb/entries.ts'
import { RING_HEAD, ringOf } from '../../dataplane/bpf/lb/ring.ts'
import { LB_RING } from '../../dataplane/numbers.ts'
import type { Driver } from '../../dataplane/plane.ts'
import { quantile, type Report } from './figure.ts'

/** What a change of the backends costs, one of a hundred, and what it does to the clients of the others. */
export async function rings(driver: Driver, vip: (backends: VipBackend[]) => VipEntry, report: Report): Promise<void> {
  const backends = Array.from({ length: 100 }, (_, n): VipBackend => {
    return { id: `backend-${n}`, address: `10.9.0.${n + 20}`, port: 8080, weight: 1, state: 'up' }
  })
  const whole = vip(backends)
  const less = vip(backends.map((it, n) => (n === 7 ? down(it) : it)))
  await driver.apply([{ after: whole }])
  const times: number[] = []
  for (let n = 0; n < 16; n++) {
    const [before, after] = n % 2 === 0 ? [whole, less] : [less, whole]
    const since = performance.now()
    await driver.apply([{ before, after }])
    times.push(performance.now() - since)
  }
  report({ figure: 'change_of_100', value: quantile(times, 0.5), unit: 'ms', goal: 30, note: 'a new ring in force' })
  await driver.apply([{ before: whole }])
  const places = (of: VipEntry) =>
    ringOf(
      'maglev',
      of.backends.flatMap(({ id, weight, state }, place) => (state === 'up' ? [{ id, weight, place }] : [])),
    ).subarray(RING_HEAD, RING_HEAD + LB_RING)
  const [before, after] = [places(whole), places(less)]
  const others = [...before.keys()].filter((slot) => before[slot] !== 7)
  const moved = others.filter((slot) => before[slot] !== after[slot]).length / others.length
  report({ figure: 'others_moved', value: moved * 100, unit: '%', goal: 1 })
  const shares = backends.map((_, place) => before.filter((it) => it === place).length / (LB_RING / 100))
  const error = Math.max(...shares.map((share) => Math.abs(share - 1)))
  report({ figure: 'share_error', value: error * 100, unit: '%', goal: 0.5 })
}

const down = (backend: VipBackend): VipBackend => ({ ...backend, state: 'down' })
