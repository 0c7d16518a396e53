/**
 * How exactly limits hold, by bytes that arrived within a time. Short here, because a busy machine sends less than it might;
 * `npm run test:bandwidth` goes through all rates with TCP and UDP, and wants a machine for itself.
 */
import t from 'tap'
import { type Netns, requireRoot } from '../../../test/netns.ts'
import { BANDWIDTH, type Place, POOLS, place, rateInto } from './lab.ts'

requireRoot(t)

const ALL = process.env.ACCURACY === 'all'
const RATES = ALL ? [1e6, 1e7, 1e8, 1e9] : [1e7]
const SECONDS = ALL ? 10 : 3
/** What of the limit must arrive at least; nothing excuses more than the limit. */
const [TCP, UDP, MOST] = ALL ? [0.97, 0.98, 1.03] : [0.5, 0.7, 1.03]
/** Share of the wire's bytes that is payload, of TCP with timestamps. */
const PAYLOAD = 1448 / 1514
/** A stream has its rate by then, and the queue its length. */
const SETTLED_MS = 3000

/** Bits a second on the wire of what a stream of guest 1 to guest 2, or the other way round, brought in order and once. */
async function tcp({ guest, address }: Place, up: boolean): Promise<number> {
  const stream = guest(1).ns.spawn('iperf3', [...['-c', address(2), '-t', String(SECONDS + 20)], ...(up ? [] : ['-R'])])
  await new Promise((wait) => setTimeout(wait, SETTLED_MS))
  const receiver = guest(up ? 2 : 1).ns
  const [from, since] = [performance.now(), received(receiver)]
  await new Promise((wait) => setTimeout(wait, SECONDS * 1000))
  const bytes = received(receiver) - since
  const seconds = (performance.now() - from) / 1000
  stream.kill('SIGKILL')
  return (bytes * 8) / seconds / PAYLOAD
}

/** What the sockets of iperf3 received in order, in bytes (tcpi_bytes_received). */
function received(ns: Netns): number {
  const told = ns.run('ss', '-Htin', 'state', 'established', '( sport = :5201 or dport = :5201 )')
  return Array.from(told.matchAll(/bytes_received:([0-9]+)/g), ([, bytes]) => Number(bytes)).reduce(
    (sum, bytes) => sum + bytes,
    0,
  )
}

async function udp({ guest, address }: Place, up: boolean, rate: number): Promise<number> {
  const [from, to] = up ? ([1, 2] as const) : ([2, 1] as const)
  // At 1 Gbit/s a socket holds 2 ms of frames: less than iperf3 rests between two bursts when it paces itself, or waits for a busy core.
  const pace = rate < 1e9 ? rate * 1.15 : 0
  const target = ['-c', address(to), '-p', '5202', '-u', '-b', String(pace), '-t', String(SECONDS + 4), '-l', '1400']
  const sender = guest(from).ns.spawn('nice', ['-n', '-20', 'iperf3', ...target])
  await new Promise((wait) => setTimeout(wait, 2000))
  const got = await rateInto(guest(to).ns, SECONDS * 1000)
  sender.kill('SIGKILL')
  return got
}

for (const rate of RATES) {
  t.test(`bw-06 ${rate / 1e6} Mbit/s, TCP and UDP, up and down`, async (t) => {
    const it = await place(t, 2)
    for (const n of [1, 2]) {
      for (const port of ['5201', '5202']) it.guest(n).ns.spawn('iperf3', ['-s', '-p', port])
    }
    await it.until('the servers listen', () =>
      [1, 2].every(
        (n) =>
          it
            .guest(n)
            .ns.run('ss', '-Hltn')
            .split('\n')
            .filter((line) => /:520[12]\b/.test(line)).length === 2,
      ),
    )
    await it.node.ok('POST', BANDWIDTH, { id: 'one', target_mac: it.mac(1), rate_bps: rate })
    for (const up of [true, false]) {
      const way = up ? 'up' : 'down'
      const stream = (await tcp(it, up)) / rate
      t.ok(stream > TCP && stream < MOST, `TCP ${way} ${stream.toFixed(3)} of the limit`)
      const flood = (await udp(it, up, rate)) / rate
      t.ok(flood > UDP && flood < MOST, `UDP ${way} ${flood.toFixed(3)} of the limit`)
    }
  })
}

t.test(
  `bw-11 bw-07 ${ALL ? 8 : 4} members of a pool on ports of their own never have more than the total`,
  async (t) => {
    const many = ALL ? 8 : 4
    const total = ALL ? 1e8 : 8e6
    const it = await place(t, many + 1)
    await it.node.ok('POST', POOLS, { id: 'shop', total_bps: total })
    await it.node.ok('POST', BANDWIDTH, {
      id: 'g',
      target_mac: it.mac(1),
      pool_id: 'shop',
      guaranteed_bps: total * 0.3,
    })
    for (let n = 2; n <= many; n++)
      await it.node.ok('POST', `${POOLS}/members`, { pool_id: 'shop', member_mac: it.mac(n) })
    const streams = Array.from({ length: many }, (_, at) => it.send(many + 1, at + 1, total * 0.5))
    await new Promise((wait) => setTimeout(wait, 1000))
    const rates = await Promise.all(streams.map((_, at) => it.rateInto(at + 1, SECONDS * 1000)))
    const sum = rates.reduce((all, one) => all + one, 0) / total
    t.ok(sum < MOST && sum > (ALL ? 0.97 : 0.6), `together ${sum.toFixed(3)} of the total`)
    const promised = (rates[0] ?? 0) / (total * 0.3)
    t.ok(promised > (ALL ? 0.95 : 0.8), `${promised.toFixed(3)} of what is guaranteed`)
    await Promise.all(streams.map((one) => one.stop()))
  },
)
