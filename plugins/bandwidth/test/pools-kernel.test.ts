/** Pools between real guests. */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { BANDWIDTH, POOLS, pairsOf, place, ratesInto } from './lab.ts'

requireRoot(t)

const TOTAL = 8_000_000

t.test(
  'bw-07 bw-11 bw-22 bw-23 members on different ports share the total, their ceilings and what is guaranteed',
  async (t) => {
    const it = await place(t, 4)
    const { node, mac, send, rateInto } = it
    await node.ok('POST', POOLS, { id: 'shop', total_bps: TOTAL })
    await node.ok('POST', BANDWIDTH, { id: 'two', target_mac: mac(2), pool_id: 'shop', guaranteed_bps: TOTAL / 2 })
    await node.ok('POST', `${POOLS}/members`, { pool_id: 'shop', member_mac: mac(1) })
    await node.ok('POST', `${POOLS}/members`, { pool_id: 'shop', member_mac: mac(3), rate_bps: TOTAL / 8 })
    const streams = [send(4, 1, TOTAL * 2), send(4, 2, TOTAL), send(4, 3, TOTAL)]
    const rates = await Promise.all([1, 2, 3].map((n) => rateInto(n, 2500)))
    const sum = rates.reduce((all, one) => all + one, 0)
    t.ok(sum <= TOTAL * 1.03 && sum > TOTAL * 0.7, `together ${sum}`)
    const [first = 0, second = 0, third = 0] = rates
    t.ok(third <= (TOTAL / 8) * 1.05, `the ceiling of a member ${third}`)
    t.ok(second >= (TOTAL / 2) * 0.9, `what is guaranteed ${second}`)
    t.ok(first > 0)
    await node.ok('DELETE', `${POOLS}/shop/members/${mac(3)}`)
    t.ok((await rateInto(3)) > TOTAL * 0.6, 'unshaped')
    t.equal((await node.agent.call('DELETE', `${POOLS}/shop`)).status, 409, 'a limit names it')
    await node.ok('DELETE', `${BANDWIDTH}/two`)
    await node.ok('DELETE', `${POOLS}/shop`)
    t.ok((await rateInto(1)) > TOTAL * 1.2, 'unshaped')
    await Promise.all(streams.map((one) => one.stop()))
    await it.until('no device is left', () => pairsOf(it).length === 0)
  },
)

t.test('bw-11 a member by a limit for one way is in the pool both ways', async (t) => {
  const it = await place(t, 3)
  const { node, mac, send } = it
  await node.ok('POST', POOLS, { id: 'shop', total_bps: TOTAL })
  await node.ok('POST', `${POOLS}/members`, { pool_id: 'shop', member_mac: mac(2) })
  const one = { id: 'one', target_mac: mac(1), pool_id: 'shop', rate_bps: TOTAL / 4 }
  const streams = [send(3, 1, TOTAL), send(3, 2, TOTAL), send(1, 3, TOTAL), send(2, 3, TOTAL)]
  for (const direction of ['up', 'down']) {
    await node.ok('POST', BANDWIDTH, { ...one, direction })
    const [first = 0, second = 0, both = 0] = await ratesInto(it, [1, 2, 3], 2500)
    t.ok(first + second <= TOTAL * 1.03 && first + second > TOTAL * 0.7, `${direction}: got ${first} and ${second}`)
    t.ok(both <= TOTAL * 1.03 && both > TOTAL * 0.7, `${direction}: sent ${both}`)
    if (direction === 'up') t.ok(first > (TOTAL / 4) * 1.1, `its own ceiling is of what it sends: ${first}`)
    else t.ok(first <= (TOTAL / 4) * 1.05, `its own ceiling is of what it gets: ${first}`)
  }
  await Promise.all(streams.map((stream) => stream.stop()))
})
