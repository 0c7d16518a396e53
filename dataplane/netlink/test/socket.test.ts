import t from 'tap'
import { netns, requireRoot } from '../../../test/netns.ts'
import { errnoName } from '../../errno.ts'
import { inNamespace, KernelError } from '../../libc.ts'
import { addAddress, deleteAddress } from '../address.ts'
import { NETLINK_ROUTE } from '../bind.ts'
import { createBridge, createLink, createVeth, getLink, listLinks, setLink } from '../link.ts'
import { addRoute, listRoutes } from '../route.ts'
import { type Netlink, openNetlink } from '../socket.ts'
import { netlinkIn } from './open.ts'

requireRoot(t)

/** Enough links for a dump of several pieces, at one message each. */
async function manyLinks(netlink: Netlink, pairs: number): Promise<void> {
  const names = Array.from({ length: pairs }, (_, n) => `st${n}`)
  const errors = await netlink.request(names.map((name) => createVeth({ name }, { name: `${name}p` })))
  const error = errors.find(Boolean)
  if (error) throw error
}

t.test('a kernel error reads like the kernel meant it', async (t) => {
  t.equal(new KernelError(22, 'mtu less than device minimum').message, 'EINVAL: mtu less than device minimum')
  t.match(new KernelError(3), { message: 'ESRCH: No such process', code: 'ESRCH', errno: 3 })
  t.same([11, 95, 67, 524, 4095].map(errnoName), ['EAGAIN', 'ENOTSUP', 'ENOLINK', 'ENOTSUPP', 'E4095'])
})

t.test('every refusal carries errno and the words of the kernel, each message for itself', async (t) => {
  const netlink = netlinkIn(t, netns(t), NETLINK_ROUTE)
  await netlink.request([createVeth({ name: 'sta', up: true }, { name: 'stb' }), createBridge({ name: 'br1' })])
  const index = (await getLink(netlink, 'sta'))?.index ?? 0
  const bridge = (await getLink(netlink, 'br1'))?.index ?? 0
  const errors = await netlink.request([
    setLink('sta', { mtu: 20 }),
    addAddress({ index, cidr: '10.0.0.1/24' }),
    addAddress({ index, cidr: '10.0.0.1/24' }),
    deleteAddress({ index, cidr: '10.0.0.9/24' }),
    addRoute({ dst: '10.9.0.0/16', gateway: '192.0.2.1' }),
    setLink('br1', { master: bridge }),
    createLink('nosuchkind', { name: 'stc' }),
    createBridge({ name: 'br1' }),
    setLink('missing', { up: true }),
  ])
  t.same(
    errors.map((error) => error?.message),
    [
      'EINVAL: mtu less than device minimum',
      undefined,
      'EEXIST: ipv4: Address already assigned',
      'EADDRNOTAVAIL: ipv4: Address not found',
      'ENETUNREACH: Nexthop has invalid gateway',
      'ELOOP: Can not enslave a bridge to a bridge',
      'ENOTSUP: Unknown device type',
      'EEXIST: File exists',
      'ENODEV: No such device',
    ],
  )
  t.equal(errors[0]?.extack, 'mtu less than device minimum')
  await t.rejects(netlink.command(setLink('sta', { mtu: 20 })), { name: 'KernelError', code: 'EINVAL', errno: 22 })
})

t.test('many messages keep their order over several sends, and the event loop stays free', async (t) => {
  const netlink = netlinkIn(t, netns(t), NETLINK_ROUTE)
  await netlink.command(setLink('lo', { up: true }))
  const dst = (n: number) => `10.${n >> 8}.${n & 255}.0/24`
  const turns = { count: 0, stop: false }
  const turn = () => {
    turns.count++
    if (!turns.stop) setImmediate(turn)
  }
  setImmediate(turn)
  // One in a hundred is refused: its destination has host bits.
  const messages = generate(3000, (n) => addRoute({ dst: n % 100 === 7 ? '10.0.0.1/8' : dst(n), oif: 1 }))
  const errors = await netlink.request(messages)
  t.equal(errors.length, 3000)
  t.ok(errors.every((error, n) => (n % 100 === 7 ? error?.code === 'EINVAL' : error === undefined)))
  t.ok(turns.count >= 5, `the event loop turned ${turns.count} times during 6 sends`)

  turns.count = 0
  const routes = await listRoutes(netlink, { table: 254, version: 4 })
  turns.stop = true
  t.equal(routes.length, 2970)
  t.ok(turns.count >= 5, `the event loop turned ${turns.count} times during the dump`)
})

function* generate<T>(count: number, make: (n: number) => T): Generator<T> {
  for (let n = 0; n < count; n++) yield make(n)
}

t.test('a dump that a change interrupts starts anew', async (t) => {
  const ns = netns(t)
  const netlink = netlinkIn(t, ns, NETLINK_ROUTE)
  await manyLinks(netlink, 100)
  const seen = { messages: 0 }
  const types = await netlink.dump(18, Buffer.alloc(16), ({ type }) => {
    // In the middle of the first attempt, with pieces still to come.
    if (seen.messages++ === 0) ns.run('ip', 'link', 'add', 'stnew', 'type', 'veth', 'peer', 'name', 'stnewp')
    return type
  })
  t.equal(types.length, 203, 'lo, 100 pairs and the new pair, each once')
  t.ok(seen.messages > 203, `${seen.messages} messages in all: there was a second attempt`)
})

t.test('a dump whose rows cannot be read rejects, and the next one works', async (t) => {
  const netlink = netlinkIn(t, netns(t), NETLINK_ROUTE)
  await manyLinks(netlink, 60)
  const failing = netlink.dump(18, Buffer.alloc(16), () => {
    throw new Error('unreadable')
  })
  const after = listLinks(netlink)
  await t.rejects(failing, /unreadable/)
  t.equal((await after).length, 121)
})

t.test('a refused dump rejects with the reason', async (t) => {
  const netlink = netlinkIn(t, netns(t), NETLINK_ROUTE)
  await t.rejects(
    netlink.dump(18, Buffer.alloc(4), () => true),
    { name: 'KernelError', code: 'EINVAL' },
  )
  await t.rejects(netlink.ask({ type: 18, flags: 0, payload: Buffer.alloc(16) }), { name: 'KernelError' })
  t.equal((await listLinks(netlink)).length, 1)
})

t.test('closing lets what is under way finish and refuses the rest', async (t) => {
  const ns = netns(t)
  const netlink = inNamespace(ns.path, () => openNetlink(NETLINK_ROUTE))
  const underWay = netlink.request([createBridge({ name: 'br1' }), createBridge({ name: 'br2' })])
  const closed = netlink.close()
  await t.rejects(listLinks(netlink), /closed/)
  t.same(await underWay, [undefined, undefined])
  await closed
  await netlink.close()
  t.equal((await listLinks(netlinkIn(t, ns, NETLINK_ROUTE))).length, 3)
})

t.test('a socket opened inside a namespace stays there, and the process does not', async (t) => {
  const ns = netns(t)
  const outside = openNetlink(NETLINK_ROUTE)
  t.teardown(() => outside.close())
  const before = (await listLinks(outside)).map(({ name }) => name)
  t.throws(() =>
    inNamespace(ns.path, () => {
      throw new Error('comes back all the same')
    }),
  )
  const inside = netlinkIn(t, ns, NETLINK_ROUTE)
  await inside.command(createBridge({ name: 'stinside' }))
  const again = openNetlink(NETLINK_ROUTE)
  t.teardown(() => again.close())
  t.notOk((await listLinks(again)).some(({ name }) => name === 'stinside'))
  t.ok(before.includes('lo'))
  t.throws(() => inNamespace('/run/netns/no-such-namespace', () => 1), { code: 'ENOENT' })
  t.throws(() => inNamespace('/proc/self/ns/uts', () => 1), { code: 'EINVAL' })
})
