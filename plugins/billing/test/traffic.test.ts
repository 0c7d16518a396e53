/** What tenants have carried, by slots and a clock that the test sets. */
import t from 'tap'
import { bindingKey } from '../../../dataplane/bpf/port/entries.ts'
import type { Account } from '../../../dataplane/bpf/port/slot_table.ts'
import { ROUTED_NET_BASE } from '../../../dataplane/numbers.ts'
import { type BillingArea, billing, NOW } from './area.ts'

const SLOT = 300_000
/** Bytes in a slot at so many kbit/s. */
const kbps = (n: number) => (n * SLOT) / 8

interface Counted extends BillingArea {
  readonly clock: { now: number }
  /** Counts bytes from and to what is bound at an address of a net. */
  count(net: number, ip: string, up: number, down?: number): void
  /** What is bound there begins at 0. */
  forget(net: number, ip: string): void
}

async function counted(t: Parameters<typeof billing>[0]): Promise<Counted> {
  const clock = { now: Date.parse(NOW) }
  const area = await billing(t, { now: () => new Date(clock.now) })
  const accounts = new Map<string, Account>()
  const key = (net: number, ip: string) => bindingKey('networks', net, ip)
  Object.assign(area.plane, { ports: { ...area.plane.ports, account: (of: string) => accounts.get(of) } })
  return {
    ...area,
    clock,
    count(net, ip, up, down = 0) {
      const { upPackets, upBytes, downPackets, downBytes } = accounts.get(key(net, ip)) ?? {
        ...{ upPackets: 0n, upBytes: 0n, downPackets: 0n, downBytes: 0n },
      }
      accounts.set(key(net, ip), {
        upPackets: upPackets + BigInt(up > 0),
        upBytes: upBytes + BigInt(up),
        downPackets: downPackets + BigInt(down > 0),
        downBytes: downBytes + BigInt(down),
      })
    },
    forget: (net, ip) => void accounts.delete(key(net, ip)),
  }
}

t.test('D92 D107 the percentile of a tenant is that of what all it has carries together', async (t) => {
  const area = await counted(t)
  const { tenant, network, range, attach, count, show, clock } = area
  const [acme, other, idle] = [await tenant('acme'), await tenant('other'), await tenant('idle')]
  const [first, second] = [await network('10.0.0.0/24', acme), await network('10.0.1.0/24', acme)]
  const theirs = await network('10.0.2.0/24', other)
  await range('8.8.4.0/30', acme)
  await attach('vm1', { network: first, ip: '10.0.0.2', mac: '02:00:00:00:00:01' })
  await attach('vm2', { network: second, ip: '10.0.1.2', mac: '02:00:00:00:00:01' })
  await attach('vm3', { network: theirs, ip: '10.0.2.2', mac: '02:00:00:00:00:01' })
  await attach('vm4', { public_ip: '8.8.4.1' })
  await show(acme)
  // 40 samples, of which 2 are discarded; up is the larger way.
  const rates = Array.from({ length: 40 }, (_, n) => ((n * 17) % 40) + 1)
  for (const rate of rates) {
    clock.now += SLOT
    count(1, '10.0.0.2', kbps(rate * 1000))
    count(2, '10.0.1.2', kbps(rate * 500), kbps(1000))
    count(ROUTED_NET_BASE + 1, '8.8.4.1', kbps(rate * 500))
    if (rate > 30) count(3, '10.0.2.2', 0, kbps(7000))
    await show(acme)
  }
  const sum = rates.reduce((all, one) => all + one, 0)
  t.match(await show(acme), { p95_mbps: 2 * 38, bytes_total: kbps(sum * 2000 + 40 * 1000) })
  const { bytes_total, gb, p95_mbps } = await show(other)
  t.same({ bytes_total, p95_mbps }, { bytes_total: kbps(10 * 7000), p95_mbps: 7 }, 'of its own traffic alone')
  t.equal(gb, bytes_total / 1e9)
  t.match(await show(idle), { bytes_total: 0, p95_mbps: 0 })

  clock.now = Date.UTC(2030, 1, 1, 1)
  t.match(await show(acme), { p95_mbps: 0, bytes_total: 0, period: /^2030-02-01/ }, 'another month')
})

t.test(
  'D107 acct-09 what a tenant had carried stays when it is detached, and a slot that begins anew counts whole',
  async (t) => {
    const { tenant, network, attach, detach, count, forget, show, clock } = await counted(t)
    const acme = await tenant('acme')
    const lan = await network('10.0.0.0/24', acme)
    const total = async () => {
      clock.now += 2000
      return (await show(acme)).bytes_total
    }
    await attach('vm1', { network: lan, ip: '10.0.0.9' })
    count(1, '10.0.0.9', 1000)
    t.equal(await total(), 1000)
    t.equal(await total(), 1000, 'once')
    await detach('vm1')
    forget(1, '10.0.0.9')
    t.equal(await total(), 1000, 'detached')
    await attach('vm2', { network: lan, ip: '10.0.0.9' })
    count(1, '10.0.0.9', 1500)
    t.equal(await total(), 2500, 'another one at the same address, which has carried more')
    forget(1, '10.0.0.9')
    count(1, '10.0.0.9', 7)
    t.equal(await total(), 2507, 'a reboot')
  },
)
