/** Links and members over the real kernel, in a network namespace of this file. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { here } from '../../../test/inside.ts'
import { requireRoot } from '../../../test/netns.ts'
import { NETLINK_ROUTE } from '../bind.ts'
import { confPaths, confValue } from '../devconf.ts'
import { bridge, type LinkEntry, link, member, type NetlinkEntry } from '../entries.ts'
import { getDetails } from '../link-detail.ts'
import { openNetlink } from '../socket.ts'
import { added, change, changed, differing, dump, ip, openDriver, quiet, removed } from './driver-rig.ts'

if (requireRoot(t) && here !== undefined) all()

function all() {
  quiet()

  t.test('the tables of sysctls agree with the files', async (t) => {
    ip('link', 'add', 'conf0', 'type', 'bridge')
    const netlink = openNetlink(NETLINK_ROUTE)
    t.teardown(() => netlink.close())
    const read = (path: string) => Number(readFileSync(`/proc/sys/net/${path}`, 'utf8'))
    const held = async () => (await getDetails(netlink, ['conf0']))[0]?.conf ?? { ipv4: [], ipv6: [] }
    const paths = confPaths('conf0')
    t.ok(paths.length > 60)
    const { writeFileSync } = await import('node:fs')
    for (const path of paths) {
      const before = read(path)
      t.equal(confValue(await held(), path, 'conf0'), before, path)
      // A changed value shows that no other place happens to hold the same.
      const other = before === 1 ? 0 : 1
      try {
        writeFileSync(`/proc/sys/net/${path}`, `${other}`)
      } catch {
        continue
      }
      t.equal(confValue(await held(), path, 'conf0'), read(path), `${path} after a change`)
      writeFileSync(`/proc/sys/net/${path}`, `${before}`)
    }
    ip('link', 'del', 'conf0')
  })

  const kinds: [string, LinkEntry, LinkEntry][] = [
    [
      'bridge',
      bridge('x', 'br1', { mtu: 1400, sysctls: [['ipv4/conf/br1/arp_announce', 2]] }),
      link('x', {
        name: 'br1',
        device: { type: 'bridge', multicastSnooping: true },
        mtu: 1450,
        mac: '02:00:00:00:00:AA',
        up: false,
        sysctls: [
          ['ipv4/conf/br1/arp_announce', 1],
          ['ipv4/conf/br1/send_redirects', 0],
        ],
      }),
    ],
    [
      'veth',
      link('x', { name: 'st1', device: { type: 'veth', peer: 'st1p' }, mtu: 1400 }),
      link('x', {
        name: 'st1',
        device: { type: 'veth', peer: 'st1p', peerMac: '02:00:00:00:00:0b' },
        mtu: 1300,
        up: false,
      }),
    ],
    [
      'vxlan',
      link('x', { name: 'vx7', device: { type: 'vxlan', vni: 7, local: '10.9.9.1' } }),
      link('x', {
        name: 'vx7',
        device: { type: 'vxlan', vni: 7, local: '10.9.9.2', learning: false, ttl: 5 },
        mtu: 1300,
      }),
    ],
    [
      'vxlan over IPv6',
      link('x', { name: 'vx8', device: { type: 'vxlan', vni: 8, local: 'FD00:0::1', port: 4790 } }),
      link('x', { name: 'vx8', device: { type: 'vxlan', vni: 9, local: 'fd00::1', port: 4790 } }),
    ],
    [
      'ifb',
      link('x', { name: 'stifb', device: { type: 'ifb' }, up: false }),
      link('x', { name: 'stifb', device: { type: 'ifb' } }),
    ],
  ]

  for (const [name, first, second] of kinds) {
    t.test(`${name}: made, observed, changed, taken back, removed`, async (t) => {
      const before = dump()
      const driver = await openDriver(t)
      await change(driver, added(first))
      t.match(ip('-d', 'link', 'show', first.name), /alias stratum:x\b/)
      t.same(await differing(driver, [first]), [])
      const made = dump()

      const undo = await change(driver, changed(first, second))
      t.same(await differing(driver, [second]), [])
      t.strictNotSame(dump(), made)
      await undo()
      t.same(dump(), made, 'taken back')
      t.same(await differing(driver, [first]), [])

      await change(driver, changed(first, second))
      const undoRemoval = await change(driver, removed(second))
      t.same(dump(), before, 'gone')
      await undoRemoval()
      t.same(await differing(driver, [second]), [], 'the removal taken back')
      await change(driver, removed(second))
      t.same(dump(), before)
      t.same(await driver.changedByOthers(), false, 'nobody else did anything')
    })
  }

  t.test('a port is put into a bridge, moved, taken back and released, and marked as long as it is in', async (t) => {
    ip('link', 'add', 'nic', 'type', 'veth', 'peer', 'name', 'nicp')
    const driver = await openDriver(t)
    // Without an address of its own a bridge has that of one of its ports.
    const [br1, br2] = [
      bridge('x', 'br1', { mac: '02:00:00:00:00:01' }),
      bridge('x', 'br2', { mac: '02:00:00:00:00:02' }),
    ]
    await change(driver, added(br1, br2))
    const before = dump()
    const port = () => dump().links.find(({ ifname }) => ifname === 'nic')
    const [first, second] = [member('x', 'nic', 'br1'), member('x', 'nic', 'br2')]

    const undo = await change(driver, added(first))
    t.match(port(), { master: 'br1', cost: 240 })
    t.same(await differing(driver, [br1, br2, first]), [])
    await undo()
    t.same(dump(), before)

    await change(driver, added(first))
    const made = dump()
    const back = await change(driver, changed(first, second))
    t.match(port(), { master: 'br2', cost: 240 })
    await back()
    t.same(dump(), made)
    const release = await change(driver, removed(first))
    t.same(dump(), before)
    await release()
    t.same(dump(), made)
    t.equal(await driver.changedByOthers(), false)
    await change(driver, removed(first, br1, br2))
    ip('link', 'del', 'nic')
  })

  t.test('persist-04 ports that somebody else put in are neither ours nor moved nor released', async (t) => {
    ip('link', 'add', 'nic', 'type', 'veth', 'peer', 'name', 'nicp')
    ip('link', 'add', 'foreign', 'type', 'bridge')
    const driver = await openDriver(t)
    await change(driver, added(bridge('x', 'br1')))
    ip('link', 'set', 'nic', 'master', 'br1')
    ip('link', 'set', 'nicp', 'master', 'foreign')
    const before = dump()
    t.same(await differing(driver, [bridge('x', 'br1')]), [], 'a port of our bridge that others joined')
    const refused = { name: 'KernelRefusal', message: /is a port already, and the agent did not put it there/ }
    await t.rejects(driver.apply(added(member('x', 'nic', 'br1'))), refused)
    await t.rejects(driver.apply(added(member('x', 'nicp', 'br1'))), refused)
    await change(driver, removed(member('x', 'nic', 'br1')))
    t.same(dump(), before)

    // Somebody took out what we put in, and put it elsewhere: a removal has nothing to do any more.
    ip('link', 'set', 'nic', 'nomaster')
    await change(driver, added(member('x', 'nic', 'br1')))
    ip('link', 'set', 'nic', 'master', 'foreign')
    const moved = dump()
    t.equal(await driver.changedByOthers(), true)
    await change(driver, removed(member('x', 'nic', 'br1')))
    t.same(dump(), moved)

    await t.rejects(driver.apply(added(member('x', 'lost', 'br1'))), { message: /interface lost does not exist/ })
    await t.rejects(driver.apply(added(member('x', 'lo', 'br9'))), { message: /interface br9 does not exist/ })
    await t.rejects(driver.apply(added(member('x', 'nicp', 'lo'))), { message: /interface lo is not a bridge/ })
    await t.rejects(driver.apply(added(member('x', 'lo', 'br1'))), { message: /loopback|Invalid argument/ })
    t.same(dump(), moved)
    await change(driver, removed(bridge('x', 'br1')))
    ip('link', 'del', 'nic')
    ip('link', 'del', 'foreign')
  })

  t.test('persist-04 a name that is taken is refused, and what has it stays as it is', async (t) => {
    ip('link', 'add', 'br1', 'type', 'bridge')
    ip('link', 'set', 'br1', 'alias', 'mine')
    ip('link', 'add', 'st1p', 'type', 'ifb')
    const before = dump()
    const driver = await openDriver(t)
    await t.rejects(driver.apply(added(bridge('x', 'br2'), bridge('x', 'br1'))), {
      name: 'KernelRefusal',
      message: 'interface br1 exists and is not ours',
    })
    await t.rejects(driver.apply(added(link('x', { name: 'st1', device: { type: 'veth', peer: 'st1p' } }))), {
      message: 'interface st1p exists and is not ours',
    })
    await t.rejects(driver.apply(changed(bridge('x', 'br1'), bridge('x', 'br1', { mtu: 1400 }))), {
      message: 'interface br1 exists and is not ours',
    })
    await change(driver, removed(bridge('x', 'br1')))
    t.same(dump(), before)

    await change(driver, added(bridge('x', 'br2')))
    await t.rejects(driver.apply(added(bridge('y', 'br2'))), { name: 'KernelRefusal' }, 'another area has it')
    await change(driver, removed(bridge('y', 'br2')))
    await t.rejects(driver.apply(changed(bridge('x', 'br2'), bridge('x', 'br2', { mtu: 20 }))), {
      message: /interface br2: Invalid argument: mtu less than device minimum/,
    })
    await change(driver, removed(bridge('x', 'br2')))
    t.same(dump(), before)
    ip('link', 'del', 'br1')
    ip('link', 'del', 'st1p')
  })

  t.test('new links may rest on each other in any order, and one name may change its kind', async (t) => {
    const before = dump()
    const driver = await openDriver(t)
    const br1 = bridge('x', 'br1', { mac: '02:00:00:00:00:01' })
    const port = link('x', { name: 'st1', device: { type: 'veth', peer: 'st1p' }, master: 'br1' })
    const entries: NetlinkEntry[] = [port, member('y', 'st1p', 'br2'), br1, bridge('y', 'br2')]
    const undo = await change(driver, added(...entries))
    t.same(await differing(driver, entries), [])
    t.match(
      dump().links.filter(({ ifname }) => String(ifname).startsWith('st1')),
      [
        { ifname: 'st1', master: 'br1', ifalias: 'stratum:x', up: true, group: 'default' },
        { ifname: 'st1p', master: 'br2', ifalias: 'stratum:x peer', up: true, cost: 241, group: 'default' },
      ],
    )
    await undo()
    t.same(dump(), before)

    await change(driver, added(...entries))
    const made = dump()
    const tunnel = link('x', { name: 'br1', device: { type: 'vxlan', vni: 3, local: '10.0.0.1' } })
    const alone = link('x', { name: 'st1', device: { type: 'veth', peer: 'st1p' } })
    const back = await change(driver, [...changed(br1, tunnel), ...changed(port, alone)])
    t.same(await differing(driver, [tunnel, alone, ...entries.slice(1, 2), bridge('y', 'br2')]), [])
    await back()
    t.same(dump(), made)
    // Another area takes over the name, and the number of the tunnel another name.
    const other = link('y', { name: 'st9', device: { type: 'vxlan', vni: 3, local: '10.0.0.1' } })
    await change(driver, changed(br1, tunnel))
    await change(driver, [...removed(tunnel), ...added(other)])
    await change(driver, removed(alone, other, bridge('y', 'br2')))
    t.same(dump(), before)
  })

  t.test('what others do to our links is noticed', async (t) => {
    const driver = await openDriver(t)
    const entries = [
      bridge('x', 'br1', { mtu: 1400 }),
      link('x', { name: 'st1', device: { type: 'veth', peer: 'st1p' } }),
    ]
    await change(driver, added(...entries, member('x', 'st1', 'br1')))
    t.equal(await driver.changedByOthers(), false)
    const meddling: string[][] = [
      ['link', 'set', 'br1', 'mtu', '1300'],
      ['link', 'set', 'br1', 'down'],
      ['link', 'set', 'st1p', 'down'],
      ['link', 'set', 'st1', 'nomaster'],
      ['link', 'set', 'br1', 'type', 'bridge', 'stp_state', '1'],
      ['link', 'set', 'br1', 'alias', 'mine'],
      ['link', 'set', 'st1', 'type', 'bridge_slave', 'cost', '5'],
      ['link', 'set', 'st1', 'name', 'st2'],
      ['link', 'del', 'br1'],
    ]
    for (const args of meddling) {
      ip(...args)
      t.equal(await driver.changedByOthers(), true, args.join(' '))
      const found = await differing(driver, [...entries, member('x', 'st1', 'br1')])
      t.ok(found.length > 0)
      if (args.includes('alias')) ip('link', 'set', 'br1', 'alias', 'stratum:x')
      else if (args.includes('name')) ip('link', 'set', 'st2', 'down', 'name', 'st1')
      else if (args.includes('cost')) ip('link', 'set', 'st1', 'nomaster')
      await driver.apply(await differing(driver, [...entries, member('x', 'st1', 'br1')]), 'restore')
      t.same(await differing(driver, [...entries, member('x', 'st1', 'br1')]), [], `${args.join(' ')} repaired`)
      t.equal(await driver.changedByOthers(), false)
    }
    ip('link', 'add', 'other', 'type', 'bridge')
    ip('link', 'del', 'other')
    t.equal(await driver.changedByOthers(), false, 'links of others are no concern')
    await change(driver, removed(member('x', 'st1', 'br1'), ...entries))
  })
}
