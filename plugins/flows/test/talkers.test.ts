/** Who talks most, of many addresses. */
import t from 'tap'
import { addressBytes, addressText } from '../../../dataplane/netlink/inet.ts'
import { chance } from '../../../test/chance.ts'
import { type Talker, Talkers } from '../talkers.ts'

t.test('flow-06 D91 the first of many addresses are those of a list that is sorted', async (t) => {
  const random = chance(3)
  const byte = () => Math.floor(random() * 256)
  const zeros = () => (random() < 0.5 ? 0 : byte())
  const talkers = new Talkers()
  const expected = new Map<string, Talker>()
  const known = Array.from({ length: 30_000 }, (_, n) =>
    addressText(n % 3 ? Uint8Array.of(10, byte(), byte(), byte()) : Uint8Array.from({ length: 16 }, zeros)),
  )
  for (let n = 0; n < 60_000; n++) {
    const ip = known[Math.floor(random() * known.length)] ?? ''
    const [packets, bytes] = [1 + Math.floor(random() * 50), Math.floor(random() * 2 ** 40)]
    talkers.add(ip, packets, bytes)
    const one = expected.get(ip) ?? { ip, packets: 0, bytes: 0, flows: 0 }
    expected.set(ip, { ip, packets: one.packets + packets, bytes: one.bytes + bytes, flows: one.flows + 1 })
  }
  const sorted = [...expected.values()].sort(
    (a, b) => b.packets - a.packets || b.bytes - a.bytes || (a.ip < b.ip ? -1 : 1),
  )
  t.same(await talkers.top(10), sorted.slice(0, 10))
  t.same(await talkers.top(1000), sorted.slice(0, 1000))
})

t.test('flow-06 addresses come out as they went in, and few of them are all', async (t) => {
  const talkers = new Talkers()
  t.same(await talkers.top(10), [])
  const ips = ['0.0.0.0', '255.255.255.255', '192.0.2.1', '::', '::1', 'fe80::', '2001:db8::1:0:0:1', '1:2:3:4:5:6:7:8']
  for (const [n, ip] of [...ips, addressText(addressBytes('::ffff:192.0.2.1'))].entries()) {
    for (let many = 0; many <= n; many++) talkers.add(ip, 1, 2)
  }
  t.same(
    (await talkers.top(10)).map(({ ip, flows }) => [ip, flows]).reverse(),
    [...ips, addressText(addressBytes('::ffff:192.0.2.1'))].map((ip, n) => [ip, n + 1]),
  )
})
