/** Limits outlive the agent, and are put back when others take them away; what others have made stays. */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { BANDWIDTH, countersOf, type Place, POOLS, pairsOf, place, QUOTAS } from './lab.ts'

requireRoot(t)

const RATE = 4_000_000

async function filled(t: Parameters<typeof place>[0]): Promise<Place> {
  const it = await place(t, 2)
  const { node, mac } = it
  await node.ok('POST', POOLS, { id: 'shop', total_bps: RATE })
  await node.ok('POST', BANDWIDTH, { id: 'one', target_mac: mac(1), pool_id: 'shop', guaranteed_bps: 1_000_000 })
  await node.ok('POST', BANDWIDTH, { id: 'two', target_mac: mac(2), rate_bps: RATE * 10, direction: 'down' })
  await node.ok('POST', QUOTAS, {
    id: 'q',
    mac: mac(1),
    monthly_limit_bytes: 10 ** 12,
    action: 'throttle',
    enforced: true,
  })
  return it
}

/** Classes as tc lists them, without what is counted. */
const classes = (it: Place): string[] =>
  pairsOf(it)
    .flatMap((device) => {
      const listed = it.node.ns.run('tc', 'class', 'show', 'dev', device).trim().split('\n')
      return listed.filter((line) => line !== '').map((line) => `${device} ${line.trim()}`)
    })
    .sort()

const drifts = ({ node }: Place): number => node.agent.logged.filter(({ msg }) => String(msg).includes('drift')).length

t.test('bw-25 limits, pools and quotas hold without an agent, and the next one finds all as it is', async (t) => {
  const it = await filled(t)
  const { node, mac, send, rateInto } = it
  const before = classes(it)
  t.equal(before.length, 7, before.join('\n'))
  const state = (await node.agent.call('GET', BANDWIDTH)).text
  const stream = send(1, 2, RATE * 2)
  await node.agent.kill('SIGKILL')
  const rate = await rateInto(2)
  t.ok(rate <= RATE * 1.03 && rate > RATE * 0.7, `without an agent ${rate}`)
  const told = drifts(it)
  await node.agent.restart()
  t.same(classes(it), before)
  t.equal((await node.agent.call('GET', BANDWIDTH)).text, state)
  t.equal(drifts(it), told, 'nothing was to be put right')
  const { quota } = (await node.ok('GET', `${QUOTAS}/${mac(1)}`)) as { quota: { used_bytes: number } }
  t.ok(quota.used_bytes > 0, 'what was counted meanwhile counts')
  t.ok((await rateInto(2)) <= RATE * 1.03)
  const sent = await stream.stop()
  t.ok(sent > 0)
})

t.test('classes, devices and queues that others take away are put back', async (t) => {
  const it = await filled(t)
  const { node, send, rateInto } = it
  const before = classes(it)
  const devices = pairsOf(it)
  const [device = ''] = devices
  const { ns } = node
  const same = () => JSON.stringify(classes(it)) === JSON.stringify(before)
  const leaf = /class htb (1:[0-9a-f]+)/.exec(
    before.find((line) => line.startsWith(`${device} `) && line.includes('leaf')) ?? '',
  )?.[1]
  ns.run('tc', 'class', 'del', 'dev', device, 'classid', leaf ?? '')
  await it.until('the class is back', same)
  ns.run('tc', 'qdisc', 'del', 'dev', device, 'root')
  await it.until('the queues are back', same)
  ns.run('tc', 'class', 'add', 'dev', device, 'parent', '1:', 'classid', '1:99', 'htb', 'rate', '1mbit')
  await it.until('what nobody asked for is gone', same)
  ns.run('ip', 'link', 'del', device)
  await it.until('the devices are back', () => JSON.stringify(pairsOf(it)) === JSON.stringify(devices) && same())
  const stream = send(1, 2, RATE * 2)
  const rate = await rateInto(2)
  t.ok(rate <= RATE * 1.03 && rate > RATE * 0.7, `and hold ${rate}`)
  await stream.stop()
})

t.test('a device of the same name that others have made is left alone, and the change is refused', async (t) => {
  const it = await place(t, 2)
  const { node, mac, guest, address } = it
  for (let n = 0; n < 16; n++)
    node.ns.run('ip', 'link', 'add', `stshape${n}`, 'type', 'veth', 'peer', 'name', `other${n}`)
  const refused = await node.agent.call('POST', BANDWIDTH, { id: 'one', target_mac: mac(1), rate_bps: RATE })
  t.equal(refused.status, 409, refused.text)
  t.same((await node.ok('GET', BANDWIDTH)).limits, [])
  t.equal(pairsOf(it).length, 16)
  t.notMatch(node.ns.run('tc', 'qdisc', 'show'), /htb/)
  t.ok(guest(1).reaches(address(2)))
  t.ok(countersOf(guest(1).ns).packets > 0)
})
