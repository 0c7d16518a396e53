/** Limits hold after somebody has deleted the agent's pins and something was changed. */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { WIPES, wipe } from '../../../test/pins.ts'
import { BANDWIDTH, POOLS, place, QUOTAS } from './lab.ts'

requireRoot(t)

const RATE = 8_000_000
/** A busy machine sends less, but never more: what is above the rate is the burst. */
const holds = (rate: number): boolean => rate <= RATE * 1.03 && rate >= RATE * 0.5

for (const what of WIPES) {
  t.test(`after ${what} among the pins was deleted`, async (t) => {
    const it = await place(t, 3)
    const { node, mac, send, rateInto } = it
    await node.ok('POST', BANDWIDTH, { id: 'former', target_mac: mac(3), rate_bps: RATE })
    const streams = [send(1, 2, RATE * 2), send(3, 2, RATE * 2)]
    wipe(node.ns, what)
    await node.ok('POST', BANDWIDTH, { id: 'one', target_mac: mac(1), rate_bps: RATE })
    let got = await rateInto(2)
    t.ok(holds(got / 2), `a limit, and one of before: ${got}`)
    wipe(node.ns, what)
    await node.ok('POST', POOLS, { id: 'pool', total_bps: RATE })
    for (const n of [1, 3]) {
      wipe(node.ns, what)
      await node.ok('POST', BANDWIDTH, {
        id: n === 1 ? 'one' : 'former',
        target_mac: mac(n),
        rate_bps: RATE,
        pool_id: 'pool',
      })
    }
    got = await rateInto(2)
    t.ok(holds(got), `a pool: ${got}`)
    wipe(node.ns, what)
    await node.ok('POST', QUOTAS, { id: 'q', mac: mac(1), monthly_limit_bytes: 1, enforced: true, action: 'block' })
    await streams[1]?.stop()
    got = await rateInto(2)
    t.ok(got < RATE / 20, `a quota that is used up: ${got}`)
    await streams[0]?.stop()
  })
}
