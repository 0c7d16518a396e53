import '../../../../test/inside.ts'
import t, { type Test } from 'tap'
import { requireRoot } from '../../../../test/netns.ts'
import { EVENTS_PER_SECOND, LOCK_SOFT } from '../../../numbers.ts'
import { openRing } from '../../ringbuf.ts'
import { TALLY_UNTOLD } from '../numbers.ts'
import { REASONS, type ReasonName } from '../reason.ts'
import { decodeViolation, type Violation } from '../violation.ts'
import { arp, BROADCAST, ethernet, ipv4, TYPE, udp } from './packet.ts'
import { type Stage, stage } from './stage.ts'
import { IP, MAC, PORT, world } from './world.ts'

requireRoot(t)

const spoofed = ethernet(MAC.a2, MAC.a1, TYPE.ipv4, ipv4(IP.a3, IP.a2, 17, udp(1, 2)))
const stranger = (n: number) => {
  const data = Buffer.from(spoofed)
  data.writeUInt32BE(n, 8)
  return data
}

/** A stage whose ring is read; `told` gives what came since it was last asked. */
async function listening(t: Test): Promise<Stage & { told(): Promise<Violation[]> }> {
  const play = await stage(t)
  play.set(world())
  let heard: Violation[] = []
  const ring = openRing(play.maps.events, (record) => void heard.push(decodeViolation(record)))
  t.teardown(() => ring.close())
  const told = async () => {
    // The ring is polled by the event loop: its turn comes after that of the timers.
    for (let quiet = 0, seen = -1; quiet < 3; quiet = heard.length === seen ? quiet + 1 : 0) {
      seen = heard.length
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    const all = heard
    heard = []
    return all
  }
  return { ...play, told }
}

/** Puts the last event of a1's spoofing two seconds into the past. */
function age({ maps }: Stage, reason: ReasonName = 'address'): void {
  const key = { mac: MAC.a1, ifindex: PORT.a1, reason: REASONS[reason].number }
  const row = maps.violations.get(key)
  if (row === undefined) throw new Error('no violation to age')
  maps.violations.set(key, { ...row, last: row.last - 2_000_000_000n })
}

const sum = (values: Iterable<bigint>) => Number([...values].reduce((a, b) => a + b, 0n))

t.test('a violation is told with who, where and what', async (t) => {
  const play = await listening(t)
  const before = process.hrtime.bigint()
  await play.run({ hook: 'port_in', ifindex: PORT.a1, data: spoofed })
  const [violation, ...more] = await play.told()
  t.same(more, [])
  t.same(
    { ...violation, time: 0n },
    {
      time: 0n,
      mac: MAC.a1,
      ifindex: PORT.a1,
      reason: 'address',
      vlan: 0,
      innerVlan: 0,
      address: IP.a3,
      suppressed: 0,
    },
  )
  const time = violation?.time ?? 0n
  t.ok(time >= before && time <= process.hrtime.bigint(), 'by the clock of this process')
})

t.test('the tags of a frame are told', async (t) => {
  const play = await listening(t)
  const request = arp(1, { mac: MAC.o1, ip: IP.o1 }, { ip: IP.o2 })
  const data = ethernet(BROADCAST, MAC.o1, TYPE.arp, request, [{ vid: 7 }])
  await play.run({ hook: 'port_in', ifindex: PORT.o1, data, beside: 0x8100_0008 })
  t.match(await play.told(), [{ reason: 'vlan_locked', vlan: 8, innerVlan: 7, address: IP.o1 }])
})

t.test('macbind-05 what a soft binding is against is told, and passes', async (t) => {
  const play = await listening(t)
  const soft = world()
  soft.locks.set(PORT.o1, LOCK_SOFT)
  play.set(soft)
  const data = ethernet(BROADCAST, MAC.nobody, 0x88b5, Buffer.alloc(46))
  const { verdict } = await play.run({ hook: 'port_in', ifindex: PORT.o1, data })
  t.equal(verdict, 'pass')
  const [violation] = await play.told()
  t.match(violation, { reason: 'macbind_soft', mac: MAC.nobody, ifindex: PORT.o1 })
  t.notOk(violation && 'address' in violation)
})

t.test('the same is told once a second, and then how often it was not', async (t) => {
  const play = await listening(t)
  for (let n = 0; n < 100; n++) await play.play({ hook: 'port_in', ifindex: PORT.a1, data: spoofed })
  const first = await play.told()
  t.ok(first.length >= 1 && first.length <= 3, `${first.length} told in as many seconds at most`)
  age(play)
  await play.play({ hook: 'port_in', ifindex: PORT.a1, data: spoofed })
  const later = await play.told()
  t.equal(later.length, 1)
  const all = [...first, ...later]
  t.equal(all.length + all.reduce((total, { suppressed }) => total + suppressed, 0), 101)
})

t.test('another MAC, port or reason is another violation', async (t) => {
  const play = await listening(t)
  const arpLie = ethernet(BROADCAST, MAC.a1, TYPE.arp, arp(1, { mac: MAC.a1, ip: IP.a3 }, { ip: IP.a2 }))
  await play.play({ hook: 'port_in', ifindex: PORT.a1, data: spoofed })
  await play.play({ hook: 'port_in', ifindex: PORT.a1, data: arpLie })
  await play.play({ hook: 'port_in', ifindex: PORT.a1, data: stranger(1) })
  await play.play({ hook: 'port_in', ifindex: PORT.b1, data: spoofed })
  t.same(
    (await play.told()).map(({ reason, ifindex }) => [reason, ifindex]),
    [
      ['address', PORT.a1],
      ['arp', PORT.a1],
      ['unbound', PORT.a1],
      ['address', PORT.b1],
    ],
  )
})

t.test('a flood of MACs is told a little, and counted whole', async (t) => {
  const play = await listening(t)
  const start = process.hrtime.bigint()
  const FLOOD = 2000
  for (let n = 0; n < FLOOD; n++) await play.play({ hook: 'port_in', ifindex: PORT.a1, data: stranger(n % 1500) })
  const seconds = Number(process.hrtime.bigint() - start) / 1e9
  const told = await play.told()
  t.ok(told.length >= EVENTS_PER_SECOND, 'as many as are allowed in a second')
  t.ok(told.length <= EVENTS_PER_SECOND * (Math.ceil(seconds) + 1), `${told.length} told in ${seconds} s`)
  const waiting = sum([...play.maps.violations.entries()].map(([, { suppressed }]) => suppressed))
  const untold = sum(play.maps.tallies.get(TALLY_UNTOLD) ?? [])
  const carried = told.reduce((total, { suppressed }) => total + suppressed, 0)
  t.equal(told.length + carried + waiting + untold, FLOOD)
  t.equal((await play.tallies()).get('unbound'), FLOOD)
})

t.test('the flood of one port does not silence another', async (t) => {
  const play = await listening(t)
  for (let n = 0; n < 200; n++) await play.play({ hook: 'port_in', ifindex: PORT.a1, data: stranger(n) })
  await play.told()
  await play.play({ hook: 'port_in', ifindex: PORT.b1, data: stranger(0) })
  t.match(await play.told(), [{ ifindex: PORT.b1, reason: 'unbound' }])
})

t.test('what nobody reads is counted', async (t) => {
  const play = await stage(t)
  play.set(world())
  const ROOM = Math.floor(262_144 / 48)
  for (let n = 0; n < ROOM + 10; n++) {
    if (n % EVENTS_PER_SECOND === 0) play.maps.told.delete(PORT.a1)
    await play.play({ hook: 'port_in', ifindex: PORT.a1, data: stranger(n) })
  }
  t.ok(sum(play.maps.tallies.get(TALLY_UNTOLD) ?? []) >= 10, 'the ring was full')
  t.equal((await play.tallies()).get('unbound'), ROOM + 10)
})
