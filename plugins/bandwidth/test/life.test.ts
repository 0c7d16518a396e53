/** What a quota counts over a month, a reboot; and the ceiling of the licence. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { layoutDir } from '../../../dataplane/bpf/bpffs.ts'
import { u32, u64 } from '../../../dataplane/bpf/codec.ts'
import { openMap } from '../../../dataplane/bpf/map.ts'
import { ceilingRow } from '../../../dataplane/shaping/maps.ts'
import { QUOTA_CLOCK_END } from '../../../dataplane/shaping/numbers.ts'
import { requireRoot } from '../../../test/netns.ts'
import { vendor } from '../../../test/rest/vendor.ts'
import type { Quota } from '../schemas.ts'
import { BANDWIDTH, type Place, POOLS, pairsOf, place, QUOTAS } from './lab.ts'

requireRoot(t)

const pins = ({ node }: Place): string => layoutDir(`/sys/fs/bpf/${node.ns.name}`)
const quotaOf = async ({ node, mac }: Place): Promise<Quota> =>
  (await node.ok('GET', `${QUOTAS}/${mac(1)}`)).quota as Quota

t.test('bw-19 state-13 the month begins in the kernel, also without an agent: what was blocked passes', async (t) => {
  const it = await place(t, 2)
  const { node, mac, guest, address } = it
  const quota = { id: 'q', mac: mac(1), monthly_limit_bytes: 5000, action: 'block', enforced: true }
  await node.ok('POST', QUOTAS, quota)
  guest(1).ns.run('sh', '-c', 'ping -n -q -c 6 -i 0.01 -w 2 -s 1000 "$1" || true', 'ping', address(2))
  t.notOk(guest(1).pings(address(2)), 'used up')
  t.equal((await quotaOf(it)).status, 'exceeded')
  await node.agent.kill('SIGKILL')
  const clock = openMap(join(pins(it), 'quota_clock'), u32, u64)
  clock.set(QUOTA_CLOCK_END, process.hrtime.bigint())
  clock.close()
  t.ok(guest(1).reaches(address(2)), 'a new month')
  await node.agent.restart()
  const after = await quotaOf(it)
  t.equal(after.status, 'ok')
  t.ok(after.used_bytes > 0 && after.used_bytes < 5000, `${after.used_bytes}`)
})

t.test('bw-25 after a reboot a quota goes on with what was written down', async (t) => {
  const it = await place(t, 2)
  const { node, mac, guest, address } = it
  await node.ok('POST', QUOTAS, { id: 'q', mac: mac(1), monthly_limit_bytes: 10 ** 9 })
  guest(1).ns.run('ping', '-n', '-q', '-c', '20', '-i', '0.01', '-s', '1000', address(2))
  const before = await quotaOf(it)
  t.ok(before.used_bytes >= 20_000)
  await node.agent.kill()
  // What a boot leaves: no maps, no devices of ours.
  rmSync(pins(it), { recursive: true })
  for (const device of pairsOf(it).filter((name) => !name.endsWith('p'))) node.ns.run('ip', 'link', 'del', device)
  await node.agent.restart()
  await node.guarded(...it.guests)
  t.ok((await quotaOf(it)).used_bytes >= before.used_bytes)
  const again = (await quotaOf(it)).used_bytes
  t.ok(guest(1).reaches(address(2)))
  t.ok((await quotaOf(it)).used_bytes > again, 'and counts')
})

t.test(
  'bw-24 lic-06 all workloads together are held to what the licence says, and no limit may be higher',
  async (t) => {
    const { config, sign } = vendor(t)
    const it = await place(t, 2, { licensed: false, config })
    const { node, mac, guest, address } = it
    const license = async (max_bandwidth_gbps: number) => {
      const ends = { valid_from: '2020-01-01T00:00:00Z', valid_until: '2120-01-01T00:00:00Z' }
      await node.ok('PUT', '/control/v1/license', { text: sign({ ...ends, max_bandwidth_gbps }) })
    }
    const ceiling = () => {
      const map = openMap(join(pins(it), 'ceilings'), u32, ceilingRow)
      try {
        return map.get(0)?.rate
      } finally {
        map.close()
      }
    }
    await license(1)
    await it.until('the ceiling is in force', () => ceiling() === 1e9)
    const much = { id: 'a', target_mac: mac(1), rate_bps: 1_000_000_001 }
    const refused = await node.agent.call('POST', BANDWIDTH, much)
    t.same([refused.status, /the licence lets this node carry 1 Gbit/.test(refused.text)], [400, true])
    t.equal((await node.agent.call('POST', POOLS, { id: 'a', total_bps: 2e9 })).status, 400)
    guest(2).ns.spawn('iperf3', ['-s'])
    await it.until('the server listens', () => guest(2).ns.run('ss', '-Hltn').includes(':5201'))
    const { end } = JSON.parse(guest(1).ns.run('iperf3', '-J', '-c', address(2), '-t', '3', '-O', '1'))
    t.ok(end.sum_received.bits_per_second < 1.05e9, `${end.sum_received.bits_per_second}`)
    await license(0)
    await it.until('there is none', () => ceiling() === 0)
    t.equal((await node.agent.call('POST', BANDWIDTH, much)).status, 200)
  },
)
