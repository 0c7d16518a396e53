/** Ports of br-work that no network has claimed: what their guests can do to the node and to its router's other guests. */
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { BROADCAST, discovery, ethernet, ipv4, ipv6, TYPE, udp } from '../../../dataplane/bpf/port/test/packet.ts'
import { tap } from '../../../test/frames.ts'
import { netns, requireRoot, veth } from '../../../test/netns.ts'
import { workloadNode } from '../../../test/workload.ts'

requireRoot(t)

const ROUTER = '02:fa:00:00:00:02'
const ns = netns(t, 'node')
const router = netns(t, 'router')
veth(t, { ns, name: 'up1' }, { ns: router, name: 'eth0', addr: '192.0.2.1/24' })
router.run('ip', 'link', 'set', 'eth0', 'address', ROUTER)
const node = await workloadNode(t, { ns, config: { workload_uplinks: 'up1', open_ports: 'open' } })
ns.run('ip', 'link', 'set', 'up1', 'master', 'br-work')
ns.run('ip', 'address', 'add', '192.0.2.254/24', 'dev', 'br-work')
const victim = node.guest('v', { addresses: ['192.0.2.10/24'], gateway: '192.0.2.1' })
const attacker = node.guest('w', { mac: '02:00:00:00:00:66', addresses: ['192.0.2.66/24'] })
await node.guarded(victim, attacker)

const out = tap(t, attacker.ns)
const mac = () => (JSON.parse(ns.run('ip', '-j', 'link', 'show', 'br-work')) as { address: string }[])[0]?.address ?? ''
const setting = (path: string) => ns.run('sysctl', '-n', path.replaceAll('/', '.')).trim()
const prefix = Buffer.from('030440c0ffffffffffffffff00000000fd660000000000000000000000000000', 'hex')

t.test(
  "an open port gets none of the frames of the router behind an uplink, though it uses the router's MAC",
  async (t) => {
    // A router is known as one once it was heard in three seconds.
    victim.ns.run('ping', '-n', '-q', '-c', '6', '-i', '0.6', '192.0.2.1')
    const spoofed = ethernet(BROADCAST, ROUTER, TYPE.ipv4, ipv4('192.0.2.66', '192.0.2.255', 17, udp(5, 6)))
    const timer = setInterval(() => out.send(spoofed), 10)
    t.teardown(() => clearInterval(timer))
    await delay(200)
    out.seen()
    const pings = victim.ns.spawn('ping', ['-n', '-q', '-c', '50', '-i', '0.04', '-W', '2', '192.0.2.1'], {
      stdio: 'ignore',
    })
    const code = await new Promise((resolve) => pings.on('exit', resolve))
    clearInterval(timer)
    t.equal(code, 0, 'every echo request is answered')
    const stolen = out.seen().filter((frame) => frame.toString('hex', 0, 6) === ROUTER.replaceAll(':', ''))
    t.same(stolen, [], 'the attacker gets none of them')
    await node.event('endpoint.violation', (data) => data.reason === 'outside_mac' && data.mac === ROUTER)
    t.ok(attacker.reaches('192.0.2.10'), 'by its own MAC it is heard')
  },
)

t.test('an open port says nothing as a router to the node, whatever that accepts', async (t) => {
  ns.run('sysctl', '-qw', 'net.ipv6.conf.br-work.accept_ra=2', 'net.ipv6.conf.br-work.autoconf=1')
  const routes = () => ns.run('ip', '-6', 'route', 'show', 'dev', 'br-work')
  const ra = (from: string, what: Buffer) => {
    const body = Buffer.concat([discovery(134, undefined), Buffer.alloc(8), what])
    body.writeUInt16BE(1800, 6)
    const packet = ipv6(from, 'ff02::1', 58, checked(from, 'ff02::1', body))
    return packet
  }
  out.send(ethernet('33:33:00:00:00:01', out.mac, TYPE.ipv6, ra('fe80::404', prefix)))
  const upstream = tap(t, router)
  upstream.send(ethernet('33:33:00:00:00:01', ROUTER, TYPE.ipv6, ra('fe80::1', prefix)))
  const signal = AbortSignal.timeout(10_000)
  while (!routes().includes('fe80::1 ')) await delay(10, undefined, { signal })
  t.notMatch(routes(), 'fe80::404', 'that of the router came later, and is the only one')
})

t.test('an open port reaches no private network through the node', async (t) => {
  const { network } = await node.ok('POST', '/api/v1/networks', {
    ...{ name: 'private', cidr: '10.8.0.0/24', gateway: '10.8.0.1', host_gateway: true },
  })
  const guest = node.guest('p', { mac: '02:00:00:00:00:08', addresses: ['10.8.0.5/24'], gateway: '10.8.0.1' })
  await node.guarded(guest)
  const id = (network as { id: string }).id
  await node.ok('POST', `/api/v1/networks/${id}/attach`, { ip: '10.8.0.5', mac: '02:00:00:00:00:08' })
  t.ok(guest.reaches('10.8.0.1'), 'control: its gateway answers')
  const inside = tap(t, guest.ns)
  const [mark, end] = [randomBytes(16), randomBytes(16)]
  out.send(ethernet(mac(), out.mac, TYPE.ipv4, ipv4('192.0.2.66', '10.8.0.5', 17, udp(5, 6, mark))))
  const upstream = tap(t, router)
  upstream.send(ethernet(mac(), ROUTER, TYPE.ipv4, ipv4('192.0.2.1', '10.8.0.5', 17, udp(5, 6, end))))
  const signal = AbortSignal.timeout(10_000)
  const seen: Buffer[] = []
  while (!seen.some((frame) => frame.includes(end))) {
    seen.push(...inside.seen())
    await delay(5, undefined, { signal })
  }
  t.notOk(
    seen.some((frame) => frame.includes(mark)),
    'what comes from behind the uplink is routed, what a guest sends is not',
  )
})

t.test('closed, an open port reaches the node not at all, and its guests each other', async (t) => {
  t.ok(victim.reaches('192.0.2.254'), 'control: open, the node answers')
  await node.ok('PUT', '/control/v1/config/open_ports', { value: 'closed' })
  t.notOk(victim.pings('192.0.2.254'))
  victim.ns.run('ip', 'neigh', 'flush', 'dev', 'eth0')
  t.notOk(victim.pings('192.0.2.254'), 'nor does ARP')
  t.ok(victim.reaches('192.0.2.1'), 'the router behind the uplink answers')
  t.ok(attacker.reaches('192.0.2.10'))
  router.run('ping', '-n', '-q', '-c', '1', '-W', '5', '192.0.2.254')
  for (const name of ['accept_ra', 'autoconf', 'accept_redirects'])
    t.equal(setting(`net/ipv6/conf/br-work/${name}`), '0', name)
  t.equal(setting('net/ipv4/conf/br-work/accept_redirects'), '0')
  await node.agent.kill('SIGKILL')
  t.notOk(victim.pings('192.0.2.254'), 'without an agent')
  await node.agent.restart()
  await node.ok('PUT', '/control/v1/config/open_ports', { value: 'auto' })
  t.notOk(victim.pings('192.0.2.254'), 'a node that begins now is closed unless it is told otherwise')
  await node.ok('PUT', '/control/v1/config/open_ports', { value: 'open' })
  t.ok(victim.reaches('192.0.2.254'))
})

/** An ICMPv6 message with its checksum (RFC 4443 section 2.3). */
function checked(from: string, to: string, body: Buffer): Buffer {
  const head = ipv6(from, to, 58, Buffer.alloc(0)).subarray(8, 40)
  const tail = Buffer.alloc(8)
  tail.writeUInt32BE(body.length, 0)
  tail[7] = 58
  const all = Buffer.concat([head, tail, body, Buffer.alloc(body.length % 2)])
  let sum = 0
  for (let at = 0; at < all.length; at += 2) sum += all.readUInt16BE(at)
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
  const message = Buffer.from(body)
  message.writeUInt16BE(~sum & 0xffff, 2)
  return message
}
