/** Quotas between real guests: counted, told, blocked and throttled by the kernel, with and without an agent. */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import type { Quota } from '../schemas.ts'
import { countersOf, type Place, place, QUOTAS } from './lab.ts'

requireRoot(t)

const quotaOf = async ({ node, mac }: Place, n = 1): Promise<Quota> =>
  (await node.ok('GET', `${QUOTAS}/${mac(n)}`)).quota as Quota

/** What the event said of the quota when it came to the status. */
const came = async ({ node }: Place, status: string) =>
  (await node.event('quota.state_changed', ({ to }) => to === status)).data

/** Sends `count` datagrams of 1000 bytes on the wire. */
function burst({ guest, address }: Place, from: number, to: number, count: number): void {
  const script = `const s=require('node:dgram').createSocket('udp4');let n=0
    const next=()=>n++<${count}?s.send(Buffer.alloc(958),9999,'${address(to)}',next):s.close()
    next()`
  guest(from).ns.run(process.execPath, '-e', script)
}

t.test('bw-15 bw-17 state-13 an advisory quota counts and tells, and leaves traffic alone', async (t) => {
  const it = await place(t, 2)
  const { node, mac } = it
  const limit = 1_000_000
  await node.ok('POST', QUOTAS, { id: 'q', mac: mac(1), monthly_limit_bytes: limit, action: 'block' })
  const period = new Date().toISOString().slice(0, 7)
  t.match(await quotaOf(it), { status: 'ok', enforced: false, current_period: period, reset_day: 1, throttled: false })
  burst(it, 1, 2, 500)
  burst(it, 2, 1, 200)
  const first = await quotaOf(it)
  // ARP and what the kernels say to each other come on top.
  t.ok(first.used_bytes >= 700_000 && first.used_bytes < 720_000, `${first.used_bytes} both ways`)
  t.equal(first.remaining_bytes, limit - first.used_bytes)
  burst(it, 1, 2, 150)
  t.equal((await quotaOf(it)).status, 'warning')
  t.match(await came(it, 'warning'), { id: 'q', status: 'warning', from: 'ok' })
  const before = countersOf(it.guest(2).ns).packets
  burst(it, 1, 2, 400)
  t.match(await quotaOf(it), { status: 'exceeded', remaining_bytes: 0, throttled: false })
  t.match(await came(it, 'exceeded'), { id: 'q', status: 'exceeded', from: 'warning' })
  await it.until('all came', () => countersOf(it.guest(2).ns).packets - before >= 400)
})

t.test('bw-16 bw-25 a block stops the MAC both ways, also without an agent, until the limit is raised', async (t) => {
  const it = await place(t, 2)
  const { node, mac, guest, address } = it
  const limit = 300_000
  const body = { id: 'q', mac: mac(1), action: 'block', enforced: true }
  await node.ok('POST', QUOTAS, { ...body, monthly_limit_bytes: limit })
  const used = (await quotaOf(it)).used_bytes
  await node.agent.kill('SIGKILL')
  burst(it, 1, 2, 600)
  t.notOk(guest(1).pings(address(2)), 'what it sends is dropped')
  await node.agent.restart()
  const blocked = await quotaOf(it)
  t.equal(blocked.status, 'exceeded')
  t.ok(blocked.used_bytes >= limit && blocked.used_bytes < limit + 2000, `${blocked.used_bytes}, at the limit`)
  t.ok(used <= blocked.used_bytes)
  t.match(await came(it, 'exceeded'), { id: 'q' }, 'told by the next agent')
  t.notOk(guest(2).pings(address(1)), 'what it gets is dropped')
  await node.ok('POST', QUOTAS, { ...body, monthly_limit_bytes: limit * 10 })
  t.ok(guest(1).reaches(address(2)), 'unblocked')
  t.ok((await quotaOf(it)).used_bytes >= blocked.used_bytes, 'nothing is forgotten')
  await node.ok('DELETE', `${QUOTAS}/${mac(1)}`)
  t.equal((await node.agent.call('GET', `${QUOTAS}/${mac(1)}`)).status, 404)
})

t.test('bw-16 a throttle slows the MAC to quota_throttle_bps each way, 1 Mbit/s by default', async (t) => {
  const it = await place(t, 2)
  const { node, mac, send, rateInto } = it
  const body = { id: 'q', mac: mac(1), action: 'throttle', enforced: true }
  await node.ok('POST', QUOTAS, { ...body, monthly_limit_bytes: 2_000_000 })
  const [up, down] = [send(1, 2, 8_000_000), send(2, 1, 8_000_000)]
  await it.until('it is throttled', async () => (await quotaOf(it)).throttled)
  const [sent, got] = await Promise.all([rateInto(2, 2500), rateInto(1, 2500)])
  for (const rate of [sent, got]) t.ok(rate < 1_050_000 && rate > 500_000, `${rate}`)
  const key = '/control/v1/config/quota_throttle_bps'
  await node.ok('PUT', key, { value: '3000000' })
  const faster = await rateInto(2, 2500)
  t.ok(faster < 3_150_000 && faster > 1_500_000, `${faster}, at once`)
  await node.ok('DELETE', key)
  await node.ok('POST', QUOTAS, { ...body, monthly_limit_bytes: 2_000_000_000 })
  t.ok((await rateInto(2)) > 5_000_000, 'and not any longer')
  await Promise.all([up.stop(), down.stop()])
})

t.test('bw-17 a frame that is flooded to a MAC at no port counts at none', async (t) => {
  const it = await place(t, 3)
  const { node, guest } = it
  const mac = '02:00:00:00:77:99'
  await node.ok('POST', QUOTAS, { id: 'q', mac, monthly_limit_bytes: 10 ** 9 })
  guest(1).ns.run('ip', 'neigh', 'add', it.address(99), 'lladdr', mac, 'dev', 'eth0')
  const before = countersOf(guest(2).ns).packets
  burst(it, 1, 99, 50)
  await it.until('it is flooded', () => countersOf(guest(2).ns).packets - before >= 50)
  const { quota } = (await node.ok('GET', `${QUOTAS}/${mac}`)) as { quota: Quota }
  t.equal(quota.used_bytes, 0)
})
