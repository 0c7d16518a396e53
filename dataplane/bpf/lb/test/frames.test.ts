import '../../../../test/inside.ts'
import t from 'tap'
import { requireRoot } from '../../../../test/netns.ts'
import { macBytes } from '../../../netlink/inet.ts'
import { extension, ipv4, ipv6, PROTOCOL } from '../../port/test/packet.ts'
import { run } from '../../test/support.ts'
import { backend, backendAddress, backendAddress6, CLIENT, lab, VIP, VIP6, vip } from './lab.ts'
import { player } from './player.ts'
import { ACK, SYN } from './walker.ts'
import { checksummed, icmpError, portsOf, rightChecksums, segment } from './wire.ts'

requireRoot(t)

const CLIENT6 = '2001:db8:1::2'
const ROUTER = '198.51.100.77'
const ROUTER6 = '2001:db8:1::77'

const it = await lab(t, 2)
for (const n of [1, 2]) {
  for (const address of [backendAddress(n), backendAddress6(n)]) {
    run('ip', 'neighbour', 'replace', address, 'lladdr', `02:00:00:00:00:0${n}`, 'dev', 'br-work')
  }
}
const play = await player(t, it.root)
const families = [
  { client: CLIENT, at: VIP, router: ROUTER, backend: backendAddress(1), family: 4 },
  { client: CLIENT6, at: VIP6, router: ROUTER6, backend: backendAddress6(1), family: 6 },
] as const

for (const { client, at, router, backend: own, family } of families) {
  const packet = (from: string, to: string, protocol: number, payload: Uint8Array) =>
    family === 4 ? ipv4(from, to, protocol, payload) : ipv6(from, to, protocol, payload)

  t.test(
    `IPv${family}: an ICMP error about a flow reaches whom it is for, and quotes what that one sent`,
    async (t) => {
      const checked = (buffer: Buffer) => t.ok(rightChecksums(buffer), 'checksums')
      for (const protocol of ['tcp', 'udp'] as const) {
        const number = PROTOCOL[protocol]
        const entry = vip({ address: at, protocol, backends: [backend(1, { address: own })] })
        await it.put(entry)
        const opening = checksummed(packet(client, at, number, segment(protocol, 5000, 80, SYN)))
        const sent = await play('up0', opening)
        t.equal(sent.verdict, 'redirect')
        checked(sent.packet)
        // The next one goes by the MAC address that is known by then, but for the first in each unit of time.
        const again = () => play('up0', checksummed(packet(client, at, number, segment(protocol, 5000, 80, ACK))))
        let next = await again()
        while (next.data.readUInt16BE(0) !== 0x0200) next = await again()
        t.same(next.data.subarray(0, 6), macBytes('02:00:00:00:00:01'))

        const answer = packet(at, client, number, segment(protocol, 80, 5000, ACK)).subarray(
          0,
          (family === 4 ? 20 : 40) + 8,
        )
        const told = await play('up0', icmpError(family, router, at, 'too-big', answer))
        t.equal(told.verdict, 'redirect')
        checked(told.packet)
        t.same(portsOf(told.packet), { from: router, to: own, quoted: [own, client, 8080, 5000] })

        const reached = packet(client, own, number, segment(protocol, 5000, 8080, ACK)).subarray(
          0,
          (family === 4 ? 20 : 40) + 8,
        )
        const back = await play('br-work', icmpError(family, own, client, 'unreachable', reached))
        t.equal(back.verdict, 'redirect')
        checked(back.packet)
        t.same(portsOf(back.packet), { from: at, to: client, quoted: [client, at, 5000, 80] })
        t.same(back.data.subarray(0, 6), macBytes('02:00:00:00:00:99'), 'by the way it came')

        const nobody = packet(at, client, number, segment(protocol, 80, 5001, ACK))
        t.equal((await play('up0', icmpError(family, router, at, 'too-big', nobody))).verdict, 'pass', 'of no flow')
        const short = icmpError(family, router, at, 'too-big', answer)
        t.equal((await play('up0', short.subarray(0, short.length - 6))).verdict, 'pass', 'cut off')
        await it.apply({ before: entry })
      }
    },
  )

  t.test(`IPv${family}: fragments go where their first one went, and back`, async (t) => {
    const entry = vip({
      address: at,
      protocol: 'udp',
      backends: [1, 2].map((n) => backend(n, { address: own.replace(/1$/, String(n)) })),
    })
    await it.put(entry)
    const piece = (from: string, to: string, offset: number, more: boolean, payload: Buffer) => {
      const field = (offset << 3) | (more ? 1 : 0)
      if (family === 4) return ipv4(from, to, PROTOCOL.udp, payload, { fragment: (more ? 0x2000 : 0) | offset })
      const header = Buffer.from([PROTOCOL.udp, 0, field >> 8, field & 255, 0, 0, 0, 7])
      return ipv6(from, to, 44, Buffer.concat([header, payload]))
    }
    const whole = segment('udp', 6000, 80, 0, 64)
    t.equal(
      (await play('up0', piece(client, at, 5, false, whole.subarray(40)))).verdict,
      'pass',
      'the first has not come',
    )
    const first = await play('up0', piece(client, at, 0, true, whole.subarray(0, 40)))
    t.equal(first.verdict, 'redirect')
    const later = await play('up0', piece(client, at, 5, false, whole.subarray(40)))
    t.equal(later.verdict, 'redirect')
    const dest = (buffer: Buffer) => buffer.subarray(family === 4 ? 16 : 24, family === 4 ? 20 : 40).toString('hex')
    t.equal(dest(later.packet), dest(first.packet))
    t.same(later.packet.subarray(family === 4 ? 20 : 48), whole.subarray(40), 'its content stays')
    await it.apply({ before: entry })
  })

  t.test(`IPv${family}: a packet at the end of its way is dropped, headers that say nothing pass`, async (t) => {
    const entry = vip({ address: at, backends: [backend(1, { address: own })] })
    await it.put(entry)
    const good = packet(client, at, PROTOCOL.tcp, segment('tcp', 7000, 80, SYN))
    const last = Buffer.from(good)
    last[family === 4 ? 8 : 7] = 1
    t.equal((await play('up0', last)).verdict, 'drop')
    // Shorter ones the kernel does not take for a run, nor from a device.
    for (let length = family === 4 ? 20 : 40; length < (family === 4 ? 40 : 60); length += 3) {
      t.equal((await play('up0', good.subarray(0, length))).verdict, 'pass', `${length} bytes`)
    }
    t.equal((await play('up0', good, [{ vid: 5 }])).verdict, 'pass', 'of a VLAN')
    await it.apply({ before: entry })
  })
}

t.test(
  'what is too long for the way to its backend is told to its sender, with room for the outer header',
  async (t) => {
    run('ip', 'route', 'add', '10.77.0.0/24', 'via', backendAddress(1))
    run('ip', '-6', 'route', 'add', 'fd77::/64', 'via', backendAddress6(1))
    const direct = vip({ dsr: true, backends: [backend(1, { address: '10.77.0.5', port: 80 })] })
    const direct6 = vip({
      id: 'six',
      key: 'lb/vip/six',
      address: VIP6,
      dsr: true,
      backends: [backend(1, { address: 'fd77::5', port: 80 })],
    })
    await it.apply({ after: direct }, { after: direct6 })
    const bulk = segment('tcp', 7300, 80, ACK, 1460)
    const whole = ipv4(CLIENT, VIP, PROTOCOL.tcp, bulk, { fragment: 0x4000 })
    t.equal(
      (await play('up0', ipv4(CLIENT, VIP, PROTOCOL.tcp, segment('tcp', 7300, 80, ACK, 1440), { fragment: 0x4000 })))
        .verdict,
      'redirect',
    )
    const told = await play('up0', whole)
    t.equal(told.verdict, 'redirect')
    t.ok(rightChecksums(told.packet))
    t.same(portsOf(told.packet), { from: VIP, to: CLIENT, quoted: [CLIENT, VIP, 7300, 80] })
    t.same([told.packet[20], told.packet[21], told.packet.readUInt16BE(26)], [3, 4, 1480])
    t.equal(
      (await play('up0', ipv4(CLIENT, VIP, PROTOCOL.tcp, bulk))).verdict,
      'drop',
      'may be cut, and nobody is there to do it',
    )
    await play('up0', ipv6(CLIENT6, VIP6, PROTOCOL.tcp, segment('tcp', 7300, 80, ACK)))
    const told6 = await play('up0', ipv6(CLIENT6, VIP6, PROTOCOL.tcp, segment('tcp', 7300, 80, ACK, 1440)))
    t.equal(told6.verdict, 'redirect')
    t.ok(rightChecksums(told6.packet))
    t.same(portsOf(told6.packet), { from: VIP6, to: CLIENT6, quoted: [CLIENT6, VIP6, 7300, 80] })
    t.same([told6.packet[40], told6.packet.readUInt32BE(44)], [2, 1460])
    await it.apply({ before: direct }, { before: direct6 })
  },
)

t.test('options of IPv4 and extension headers of IPv6', async (t) => {
  const entry = vip({ backends: [backend(1)] })
  const entry6 = vip({
    id: 'six',
    key: 'lb/vip/six',
    address: VIP6,
    backends: [backend(1, { address: backendAddress6(1) })],
  })
  await it.apply({ after: entry }, { after: entry6 })
  const tcp = segment('tcp', 7100, 80, SYN)
  const optional = await play(
    'up0',
    checksummed(ipv4(CLIENT, VIP, PROTOCOL.tcp, tcp, { options: Buffer.from([1, 1, 1, 0]) })),
  )
  t.equal(optional.verdict, 'redirect')
  t.ok(rightChecksums(optional.packet))
  const extended = await play('up0', ipv6(CLIENT6, VIP6, 60, extension(PROTOCOL.tcp, tcp)))
  t.equal(extended.verdict, 'redirect')
  t.same(extended.packet.subarray(48 + 2, 48 + 4), Buffer.from([0x1f, 0x90]), 'port 8080')
  await it.apply({ before: entry }, { before: entry6 })
})

t.test('UDP without checksum stays without', async (t) => {
  const entry = vip({ protocol: 'udp', backends: [backend(1)] })
  await it.put(entry)
  const bare = await play('up0', ipv4(CLIENT, VIP, PROTOCOL.udp, segment('udp', 7200, 80, 0)))
  t.equal(bare.packet.readUInt16BE(26), 0)
  await it.apply({ before: entry })
})
