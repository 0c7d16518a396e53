/** Link-local addresses of guests in one network: their own work however they come by them, a neighbour's do not. */
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { discovery, ethernet, ipv6, linkOption, TYPE } from '../../../dataplane/bpf/port/test/packet.ts'
import { type Tap, tap } from '../../../test/frames.ts'
import { requireRoot } from '../../../test/netns.ts'
import { type Guest, workloadNode } from '../../../test/workload.ts'

requireRoot(t)

const node = await workloadNode(t)
const { network } = await node.ok('POST', '/api/v1/networks', { name: 'lan', cidr: '10.0.0.0/24', gateway: '10.0.0.1' })
const id = (network as { id: string }).id

async function member(name: string, n: number): Promise<Guest> {
  const mac = `02:00:00:00:00:0${n}`
  const guest = node.guest(name, { mac, addresses: [`10.0.0.${n}/24`] })
  await node.guarded(guest)
  await node.ok('POST', `/api/v1/networks/${id}/attach`, { ip: `10.0.0.${n}`, mac, port: guest.port })
  return guest
}

/** Takes the address away and takes one anew, by a mode of the kernel: 0 EUI-64, 2 stable secret (RFC 7217). Waits for the end of DAD. */
async function anew({ ns }: Guest, mode: 0 | 2): Promise<{ local: string; flags: string }> {
  ns.run('ip', 'link', 'set', 'eth0', 'down')
  if (mode === 2) ns.run('sysctl', '-qw', 'net.ipv6.conf.eth0.stable_secret=2001:db8::7217')
  else ns.run('ip', 'link', 'set', 'eth0', 'addrgenmode', 'eui64')
  ns.run('ip', 'link', 'set', 'eth0', 'up')
  const signal = AbortSignal.timeout(20_000)
  for (;;) {
    const text = ns.run('ip', '-6', '-o', 'address', 'show', 'dev', 'eth0', 'scope', 'link')
    const local = /inet6 (\S+)\/64/.exec(text)?.[1]
    if (local !== undefined && (!text.includes('tentative') || text.includes('dadfailed')))
      return { local, flags: text }
    await delay(20, undefined, { signal })
  }
}

const [a, b, attacker] = [await member('a', 5), await member('b', 6), await member('x', 7)]
const evil = tap(t, attacker.ns)

/** Denies whatever address somebody asks for, by answers and by the same question. */
function deny(t: { teardown(undo: () => void): unknown }, by: Tap): void {
  const timer = setInterval(() => {
    for (const one of by.seen()) {
      if (one.length < 78 || one.readUInt16BE(12) !== TYPE.ipv6 || one[20] !== 58 || one[54] !== 135) continue
      if (one.subarray(6, 12).equals(Buffer.from(by.mac.replaceAll(':', ''), 'hex'))) continue
      const target = textOf(one.subarray(62, 78))
      by.send(says(by.mac, target, discovery(136, target, linkOption(2, by.mac))))
      by.send(says(by.mac, '::', discovery(135, target)))
    }
  }, 1)
  t.teardown(() => clearInterval(timer))
}
const textOf = (bytes: Buffer) => (bytes.toString('hex').match(/.{4}/g) ?? []).join(':')

/** To all nodes, its checksum right (RFC 4443 section 2.3). */
function says(mac: string, from: string, body: Buffer): Buffer {
  const packet = ipv6(from, 'ff02::1', 58, body)
  const tail = Buffer.alloc(8)
  tail.writeUInt32BE(body.length, 0)
  tail[7] = 58
  const all = Buffer.concat([packet.subarray(8, 40), tail, body])
  let sum = 0
  for (let at = 0; at < all.length; at += 2) sum += all.readUInt16BE(at)
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
  packet.writeUInt16BE(~sum & 0xffff, 42)
  return ethernet('33:33:00:00:00:01', mac, TYPE.ipv6, packet)
}

t.test(
  'guests with EUI-64 and with stable private addresses get them and reach each other, though a neighbour denies them',
  async (t) => {
    deny(t, evil)
    const [ofA, ofB] = [await anew(a, 0), await anew(b, 2)]
    t.match(ofA.local, /ff:fe/)
    t.notMatch(ofB.local, /ff:fe/)
    for (const { flags } of [ofA, ofB]) t.notMatch(flags, 'dadfailed')
    t.ok(a.reaches(`${ofB.local}%eth0`))
    t.ok(b.reaches(`${ofA.local}%eth0`))
    b.ns.run('ip', 'link', 'set', 'eth0', 'down')
    b.ns.run('ip', 'link', 'set', 'eth0', 'up')
    t.ok(a.reaches(`${ofB.local}%eth0`), 'after a restart it has the same')
  },
)

t.test('an answer for the address of a neighbour moves no traffic', async (t) => {
  const [ofA, ofB] = [await anew(a, 0), await anew(b, 2)]
  t.ok(a.reaches(`${ofB.local}%eth0`))
  const answer = discovery(136, ofB.local, linkOption(2, evil.mac))
  answer[4] = 0x20
  const timer = setInterval(() => {
    for (const from of [ofB.local, textOf(Buffer.from('fe80000000000000000000fffe000007', 'hex'))])
      evil.send(says(evil.mac, from, answer))
  }, 5)
  t.teardown(() => clearInterval(timer))
  await delay(100)
  const neighbour = () => a.ns.run('ip', '-6', 'neighbour', 'show', ofB.local)
  t.match(neighbour(), '02:00:00:00:00:06')
  t.ok(a.pings(`${ofB.local}%eth0`))
  t.notMatch(neighbour(), evil.mac)
  t.ok(b.reaches(`${ofA.local}%eth0`))
  await node.event('endpoint.violation', ({ reason, mac }) => reason === 'ipv6_target' && mac === evil.mac)
  await node.event('endpoint.violation', ({ reason, mac }) => reason === 'ipv6_link' && mac === evil.mac)
})
