/** The driver on real ports: entries in, what guests can do out. The ports are in this process's own namespace. */
import '../../../../test/inside.ts'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { arrives, frame } from '../../../../test/frames.ts'
import { requireRoot } from '../../../../test/netns.ts'
import type { Entry } from '../../../entry.ts'
import { layoutDir } from '../../bpffs.ts'
import { type Codec, u32 } from '../../codec.ts'
import { openMap } from '../../map.ts'
import { bpffs } from '../../test/support.ts'
import { type Binding, binding, net, tenantNet, uplink, vlanPolicy } from '../entries.ts'
import { bucketRow, tenantNetRow } from '../layout.ts'
import { bridged, opened, run } from './rig.ts'

requireRoot(t)

const NET = net('networks', { net: 1, cidr: '10.0.0.0/24', hostGateway: false })
const bound = (address: string, mac: string, more: Partial<Binding> = {}) =>
  binding('networks', { net: 1, address, mac, routed: [], ...more })
const after = (...entries: Entry[]) => entries.map((entry) => ({ after: entry }))

/** An ARP request that says who sends it. */
function arp(mac: string, address: string): Buffer {
  const packet = Buffer.alloc(28)
  packet.writeUInt16BE(1, 0)
  packet.writeUInt16BE(0x0800, 2)
  packet.writeUInt8(6, 4)
  packet.writeUInt8(4, 5)
  packet.writeUInt16BE(1, 6)
  Buffer.from(mac.replaceAll(':', ''), 'hex').copy(packet, 8)
  Buffer.from(address.split('.').map(Number)).copy(packet, 14)
  return frame({ from: mac, type: 0x0806 }, packet)
}

t.test('a network keeps to itself; observation finds what is there, what is damaged and what is stray', async (t) => {
  const root = bpffs(t)
  const guests = bridged(t, ['a', 'b', 'c'])
  const { a, b, c } = guests
  if (!a || !b || !c) throw new Error('no guests')
  const first = await opened(t, root)
  await first.driver.observe([])
  t.same(
    first.ports
      .list()
      .map(({ name, role, net }) => [name, role, net])
      .sort(),
    [
      ['a', 'workload', 0],
      ['b', 'workload', 0],
      ['br-work', 'host', 0],
      ['c', 'workload', 0],
    ],
  )
  t.ok(await arrives(a.tap, b.tap, {}), 'open ports talk')

  const one = bound('10.0.0.1', a.tap.mac)
  const two = bound('10.0.0.2', b.tap.mac, { port: 'b' })
  await first.driver.apply(after(NET, one, two))
  t.equal(first.ports.list().find(({ name }) => name === 'b')?.net, 1, 'a declared port has its net at once')
  a.tap.send(arp(a.tap.mac, '10.0.0.1'))
  t.ok(await arrives(a.tap, b.tap, {}), 'bound MACs of one network talk')
  t.equal(first.ports.list().find(({ name }) => name === 'a')?.net, 1, 'a port is claimed by the first frame')
  c.tap.seen()
  a.tap.send(frame({ from: a.tap.mac }, Buffer.from('for the network only')))
  t.ok(await arrives(a.tap, b.tap, {}))
  t.notOk(
    c.tap.seen().some((it) => it.includes('for the network only')),
    'an open port sees nothing of it',
  )
  t.ok((first.ports.account(one.key)?.upPackets ?? 0n) > 0n, 'frames are counted')

  const wanted = [NET, one, two, vlanPolicy('vlan', 9)]
  await first.driver.apply(after(vlanPolicy('vlan', 9)))
  t.same(await first.driver.observe(wanted), wanted, 'everything is there')
  await first.close()

  const second = await opened(t, root)
  t.same(await second.driver.observe(wanted), wanted, 'and is found by the next agent')
  t.ok(await arrives(a.tap, b.tap, {}), 'without an interruption')
  t.same(
    (await second.driver.observe([NET, two])).map(({ key }) => key),
    [NET.key, two.key, `networks/stray/by_mac/1/${a.tap.mac}`, ...(await strays(second, [NET, two]))],
    'what nobody desires is stray',
  )
  await second.close()
  t.same(second.problems, [])
})

async function strays({ driver }: Awaited<ReturnType<typeof opened>>, desired: Entry[]): Promise<string[]> {
  const keys = (await driver.observe(desired)).map(({ key }) => key)
  return keys.filter((key) => key.includes('/stray/') && !key.includes('/by_mac/'))
}

t.test('a change of MAC, an unbinding, a full undo', async (t) => {
  const root = bpffs(t)
  const { a, b } = bridged(t, ['a', 'b'])
  if (!a || !b) throw new Error('no guests')
  const { driver, ports, close } = await opened(t, root)
  t.teardown(close)
  await driver.observe([])
  const one = bound('10.0.0.1', a.tap.mac, { port: 'a' })
  const two = bound('10.0.0.2', b.tap.mac, { port: 'b' })
  await driver.apply(after(NET, one, two))
  const next = '02:00:00:00:00:99'
  const moved = { ...one, mac: next }
  await driver.apply([{ before: one, after: moved }])
  t.notOk(
    await arrives(a.tap, b.tap, { from: a.tap.mac }, { from: next }),
    'the old MAC no longer passes, the new one does',
  )
  await driver.apply([{ before: moved, after: one }])
  t.notOk(await arrives(a.tap, b.tap, { from: next }, { from: a.tap.mac }), 'and back')
  await driver.apply([{ before: one }])
  t.same(await driver.observe([NET, two]), [NET, two], 'nothing is left of an unbound one')
  const signal = AbortSignal.timeout(10_000)
  while (ports.list().some(({ name, net }) => name === 'a' && net !== 0)) {
    signal.throwIfAborted()
    await new Promise(setImmediate)
  }
  t.pass('its port is open again')
  await driver.apply([{ before: two }, { before: NET }])
  t.same(await driver.observe([]), [])
})

t.test('an uplink is another role, and comes and goes at once', async (t) => {
  const root = bpffs(t)
  bridged(t, ['a', 'up'])
  const { driver, ports, close } = await opened(t, root)
  t.teardown(close)
  await driver.observe([])
  const role = (name: string) => ports.list().find((it) => it.name === name)?.role
  t.equal(role('up'), 'workload')
  await driver.apply(after(uplink('l2', 'up')))
  t.equal(role('up'), 'uplink')
  await driver.apply([{ before: uplink('l2', 'up') }])
  t.equal(role('up'), 'workload')
  t.equal(role('a'), 'workload')
})

t.test('pins of ports that are gone, and a gate that is gone, do not keep the next agent from its work', async (t) => {
  const root = bpffs(t)
  bridged(t, ['a'])
  const first = await opened(t, root)
  await first.driver.observe([])
  await first.close()
  run('link del dev a')
  execFileSync('nft', ['delete', 'table', 'bridge', 'stratum'])
  run('link add name b type veth peer name bb')
  t.teardown(() => void run('link del dev b'))
  run('link set dev b up master br-work')
  const second = await opened(t, root)
  t.teardown(second.close)
  await second.driver.observe([])
  t.same(
    second.ports
      .list()
      .map(({ name }) => name)
      .sort(),
    ['b', 'br-work'],
  )
  t.same(second.problems, [])
  const { places } = await second.links.present()
  t.equal(places.length, 4, 'two programs of each are left')
})

t.test('what holds for the nets of a tenant, and what the tenant owes', async (t) => {
  const root = bpffs(t)
  const first = await opened(t, root)
  await first.driver.observe([])
  const pinned = <V>(name: string, value: Codec<V>) => {
    const map = openMap(join(layoutDir(root), name), u32, value)
    t.teardown(() => map.close())
    return map
  }
  const [rows, any, buckets] = [
    pinned('tenant_nets', tenantNetRow),
    pinned('any_tenant_net', u32),
    pinned('buckets', bucketRow),
  ]
  const of = (number: number, fields: object = {}) =>
    tenantNet('billing', { net: number, bucket: 3, rate: 1000, blocked: false, ...fields })
  const owed = { up: 5n, down: 6n }
  buckets.set(3, owed)
  await first.driver.apply(after(of(1)))
  t.same(rows.get(1), { flags: 0, bucket: 3, rate: 1000 })
  t.equal(any.get(0), 1)
  t.same(buckets.get(3), { up: 0n, down: 0n }, 'it does not owe what the tenant before it did')
  buckets.set(3, owed)
  await first.driver.apply([{ before: of(1), after: of(1, { blocked: true }) }])
  t.same(rows.get(1), { flags: 1, bucket: 3, rate: 1000 })
  t.same(buckets.get(3), owed, 'a block changes nothing about it')
  await first.driver.apply([{ before: of(1, { blocked: true }), after: of(1, { rate: 2000 }) }])
  t.same(buckets.get(3), { up: 0n, down: 0n }, 'what was owed at another rate is not')
  buckets.set(3, owed)
  await first.close()

  const second = await opened(t, root)
  t.teardown(second.close)
  const wanted = of(1, { rate: 2000 })
  t.same(await second.driver.observe([wanted]), [wanted], 'found by the next agent')
  t.same(buckets.get(3), owed, 'and it is still owed')
  rows.set(1, { flags: 0, bucket: 3, rate: 7 })
  rows.set(9, { flags: 1, bucket: 0, rate: 0 })
  any.set(0, 0)
  const [damaged, stray] = await second.driver.observe([wanted])
  t.match(damaged, { key: wanted.key, damaged: true })
  t.match(stray, { key: 'billing/stray/tenantNets/9' })
  if (!damaged || !stray) return
  await second.driver.apply([{ before: damaged, after: wanted }, { before: stray }])
  t.same([rows.get(1), rows.get(9), any.get(0)], [{ flags: 0, bucket: 3, rate: 2000 }, undefined, 1], 'made good')
  await second.driver.apply([{ before: wanted }])
  t.same([[...rows.entries()], any.get(0)], [[], 0], 'nothing is left')
  t.same(await second.driver.observe([]), [])
})
