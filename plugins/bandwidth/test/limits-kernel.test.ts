/** Limits between real guests: what comes through, and that changes lose nothing. */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { BANDWIDTH, countersOf, pairsOf, place } from './lab.ts'

requireRoot(t)

const RATE = 8_000_000
/** A busy machine sends less, but never more: what is above the rate is the burst. */
const within = (rate: number, limit: number): boolean => rate <= limit * 1.03 && rate >= limit * 0.75

t.test('bw-06 bw-21 a limit holds each way that it is for, and no other, until it is deleted', async (t) => {
  const it = await place(t, 2)
  const { node, mac, send, rateInto } = it
  const limit = (fields: object) =>
    node.ok('POST', BANDWIDTH, { id: 'one', target_mac: mac(1), rate_bps: RATE, ...fields })
  const [up, down] = [send(1, 2, RATE * 2), send(2, 1, RATE * 2)]
  await limit({ direction: 'up' })
  let [sent, got] = await Promise.all([rateInto(2), rateInto(1)])
  t.ok(within(sent, RATE), `up ${sent}`)
  t.ok(got > RATE * 1.3, `down is free: ${got}`)
  await limit({ direction: 'down' })
  ;[sent, got] = await Promise.all([rateInto(2), rateInto(1)])
  t.ok(within(got, RATE), `down ${got}`)
  t.ok(sent > RATE * 1.3, `up is free: ${sent}`)
  await limit({})
  ;[sent, got] = await Promise.all([rateInto(2), rateInto(1)])
  t.ok(within(sent, RATE) && within(got, RATE), `both ${sent} ${got}`)
  await node.ok('DELETE', `${BANDWIDTH}/one`)
  ;[sent, got] = await Promise.all([rateInto(2), rateInto(1)])
  t.ok(sent > RATE * 1.3 && got > RATE * 1.3, `unshaped ${sent} ${got}`)
  await it.until('no device is left', () => pairsOf(it).length === 0)
  await Promise.all([up.stop(), down.stop()])
})

t.test('bw-06 changes under traffic lose nothing', async (t) => {
  const it = await place(t, 2)
  const { node, mac, send, guest } = it
  const before = countersOf(guest(2).ns).packets
  const stream = send(1, 2, RATE / 4)
  const wait = () => new Promise((resolve) => setTimeout(resolve, 150))
  for (let round = 0; round < 3; round++) {
    for (const target of [1, 2]) {
      const body = { id: 'one', target_mac: mac(target) }
      for (const rate_bps of [RATE, RATE * 10, RATE]) {
        await node.ok('POST', BANDWIDTH, { ...body, rate_bps })
        await wait()
      }
      await node.ok('POST', `${BANDWIDTH}/pools`, { id: 'pool', total_bps: RATE })
      await node.ok('POST', BANDWIDTH, { ...body, pool_id: 'pool' })
      await wait()
      await node.ok('POST', BANDWIDTH, { ...body, rate_bps: RATE })
      await wait()
      await node.ok('DELETE', `${BANDWIDTH}/one`)
      await node.ok('DELETE', `${BANDWIDTH}/pools/pool`)
      await wait()
    }
  }
  const sent = await stream.stop()
  t.ok(sent > 100)
  await it.until('all has come', () => countersOf(guest(2).ns).packets - before >= sent)
})

t.test('bw-07 a burst passes at once, and no more than it', async (t) => {
  const { node, mac, guest, address } = await place(t, 2)
  const burst_bytes = 200_000
  await node.ok('POST', BANDWIDTH, { id: 'one', target_mac: mac(1), rate_bps: 100_000, burst_bytes, direction: 'up' })
  const before = countersOf(guest(2).ns).bytes
  const script = `const s=require('node:dgram').createSocket('udp4');let n=0
    const next=()=>n++<250?s.send(Buffer.alloc(958),9999,'${address(2)}',next):s.close()
    next()`
  guest(1).ns.run(process.execPath, '-e', script)
  const got = countersOf(guest(2).ns).bytes - before
  t.ok(got > burst_bytes * 0.97, `${got} at once`)
  t.ok(got < burst_bytes + 30_000, `${got} and no more`)
})
