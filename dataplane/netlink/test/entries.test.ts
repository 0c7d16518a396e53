import t from 'tap'
import { sameEntry } from '../../entry.ts'
import { Attributes, Payload } from '../attribute.ts'
import { appendDevice, completeDevice, type DeviceOptions, decodeDevice, deviceChange } from '../device.ts'
import { address, bridge, link, member, neighbour, policy, route } from '../entries.ts'

t.test('one thing has one key, however it is spelled', async (t) => {
  t.equal(bridge('l2', 'br-work').key, 'l2/link/br-work')
  t.equal(member('l2', 'eth1', 'br-work').key, 'l2/member/eth1')
  t.equal(address('n', { link: 'br1', address: '10.0.0.1/24' }).key, 'n/address/br1/10.0.0.1/24')
  t.equal(address('n', { link: 'br1', address: 'FD00:0:0::1/64' }).key, 'n/address/br1/fd00::1/64')
  t.equal(route('r', { destination: '10.1.2.3/8', gateway: '10.0.0.1' }).key, 'r/route/254/10.0.0.0/8/0')
  t.equal(route('r', { destination: '::/0', gateway: 'FE80::1', link: 'eth0', table: 0 }).key, 'r/route/254/::/0/1024')
  t.equal(route('r', { destination: 'fd00::ffff/20', link: 'a', metric: 5, table: 9 }).key, 'r/route/9/fd00::/20/5')
  t.equal(
    policy('r', { priority: 7, from: '10.0.0.1/8', to: '0.0.0.0/0', fwmark: 3, iif: 'a', table: 5 }).key,
    'r/policy/7/4/from=10.0.0.0/8,fwmark=3,fwmask=4294967295,iif=a,table=5',
  )
  t.equal(policy('r', { priority: 7, to: '::/0', table: 5 }).key, 'r/policy/7/6/table=5')
  t.equal(neighbour('n', { link: 'a', address: 'FD00::0:5', mac: '02:AA:00:00:00:01' }).key, 'n/neighbour/a/fd00::5')
  t.match(neighbour('n', { link: 'a', address: 'fd00::5', mac: '02:AA:00:00:00:01' }), { mac: '02:aa:00:00:00:01' })
})

t.test('what the kernel could not hold is refused', async (t) => {
  t.throws(() => bridge('l2', 'a/b'), RangeError)
  t.throws(() => bridge('l2', 'sixteen-letters-'), RangeError)
  t.throws(() => member('l2', 'eth0', ''), RangeError)
  t.throws(() => link('l2', { name: 'a', device: { type: 'veth', peer: 'b c' } }), RangeError)
  t.throws(() => bridge('l2', 'a', { mac: '02:00' }), RangeError)
  t.throws(() => bridge('l2', 'a', { sysctls: [['ipv4/conf/b/rp_filter', 1]] }), RangeError, 'of another device')
  t.throws(() => bridge('l2', 'a', { sysctls: [['ipv4/conf/a/nonsense', 1]] }), RangeError)
  t.throws(() => bridge('l2', 'a', { sysctls: [['ipv4/neigh/a/gc_stale_time', 1]] }), RangeError)
  t.throws(() => address('n', { link: 'a', address: '10.0.0.1' }), RangeError)
  t.throws(() => route('r', { destination: '10.0.0.0/33', link: 'a' }), RangeError)
  t.throws(() => route('r', { destination: '10.0.0.0/8', gateway: 'gw' }), RangeError)
  t.throws(() => policy('r', { priority: 1, from: '10.0.0.0/8', to: 'fd00::/8', table: 5 }), RangeError)
  t.throws(() => policy('r', { version: 6, priority: 1, from: '10.0.0.0/8', table: 5 }), RangeError)
})

t.test('what is observed is what is asked for when it has all that was asked', async (t) => {
  const conf = { ipv4: Array.from({ length: 33 }, () => 0), ipv6: [] }
  const held = { ...bridge('x', 'a', { mac: '02:00:00:00:00:01', mtu: 1500 }), seen: conf }
  t.ok(sameEntry(held, bridge('x', 'a')), 'whatever nobody asked for')
  t.ok(sameEntry(bridge('x', 'a', { mtu: 1500 }), held))
  t.notOk(sameEntry(held, bridge('x', 'a', { mtu: 1400 })))
  t.notOk(sameEntry(held, bridge('x', 'a', { up: false })))
  t.notOk(sameEntry(held, bridge('x', 'a', { master: 'b' })))
  t.notOk(sameEntry({ ...held, master: 'b' }, bridge('x', 'a')), 'it shall be in no bridge')
  t.ok(sameEntry(held, bridge('x', 'a', { sysctls: [['ipv4/conf/a/rp_filter', 0]] })))
  t.notOk(sameEntry(held, bridge('x', 'a', { sysctls: [['ipv4/conf/a/rp_filter', 1]] })))
  t.ok(sameEntry(held, bridge('x', 'a', { sysctls: [['ipv6/conf/a/accept_ra', 0]] })), 'the kernel has no IPv6 there')
  t.notOk(sameEntry(bridge('x', 'a', { mtu: 1500 }), bridge('x', 'a')), 'two wishes differ')

  const fields = { destination: '10.0.0.0/8', gateway: '192.0.2.1' }
  const found = { ...route('x', fields), seen: { link: 'a' } }
  t.ok(sameEntry(found, route('x', fields)), 'the kernel chose the link')
  t.ok(sameEntry(found, route('x', { ...fields, link: 'a' })))
  t.notOk(sameEntry(found, route('x', { ...fields, link: 'b' })))
  t.notOk(sameEntry(found, route('x', { ...fields, gateway: '192.0.2.2' })))
  t.notOk(sameEntry(route('x', fields), route('x', { ...fields, link: 'a' })), 'two wishes differ')
})

t.test('settings of a kind come back as they were written, of kinds too that this kernel lacks', async (t) => {
  const links = {
    index: (name: string) => (name === 'eth0' ? 7 : undefined),
    name: (index: number) => (index === 7 ? 'eth0' : 'far'),
  }
  const kinds: DeviceOptions[] = [
    { type: 'dummy' },
    { type: 'ifb' },
    { type: 'bridge' },
    { type: 'bridge', stp: true, vlanFiltering: true, multicastSnooping: true, netfilter: true },
    { type: 'vxlan', vni: 5 },
    { type: 'vxlan', vni: 0xffffff, port: 8472, local: '192.0.2.1', underlay: 'eth0', learning: false, ttl: 9 },
    { type: 'vxlan', vni: 6, local: '2001:DB8::1' },
    { type: 'bond', mode: '802.3ad', lacpRate: 'fast', hashPolicy: 'layer3+4', miimon: 50 },
    { type: 'bond', mode: 'active-backup' },
  ]
  for (const options of kinds) {
    const device = completeDevice(options)
    const payload = new Payload()
    appendDevice(payload, device, links, { group: 1 })
    const read = decodeDevice(device.type, new Attributes(payload.finish(), 0), links)
    t.same(read, device, JSON.stringify(options))
    t.equal(deviceChange(device, completeDevice(options)), 'none')
  }
  t.throws(
    () => appendDevice(new Payload(), completeDevice({ type: 'vxlan', vni: 1, underlay: 'lost' }), links, { group: 1 }),
    {
      message: 'interface lost does not exist',
    },
  )
})
