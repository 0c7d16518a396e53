/** Bonds and their members over the real kernel, in a network namespace of this file. */
import t from 'tap'
import { here } from '../../../test/inside.ts'
import { requireFeatures } from '../../../test/kernel-features.ts'
import { requireRoot } from '../../../test/netns.ts'
import { NETLINK_ROUTE } from '../bind.ts'
import { readBond, whyNoBonds } from '../bond.ts'
import { bond, bridge, link, member } from '../entries.ts'
import { openNetlink } from '../socket.ts'
import { added, change, changed, differing, dump, ip, openDriver, quiet, removed } from './driver-rig.ts'

if (requireRoot(t) && here !== undefined && requireFeatures(t, 'bonding')) all()

function all() {
  quiet()

  t.test('whether bonds can be made is found out without making one', async (t) => {
    const netlink = openNetlink(NETLINK_ROUTE)
    t.teardown(() => netlink.close())
    const before = dump()
    t.equal(await whyNoBonds(netlink), undefined)
    t.same(dump(), before)
    t.equal(await readBond(netlink, 'bond0', []), undefined)
    t.equal(await readBond(netlink, 'lo', []), undefined)
  })

  for (const mode of ['active-backup', '802.3ad'] as const) {
    t.test(`${mode}: made, observed, changed, taken back, removed`, async (t) => {
      const before = dump()
      const driver = await openDriver(t)
      const first = bond('x', 'bond0', mode, { mtu: 1400 })
      const second = bond('x', 'bond0', mode, { mtu: 2000 })
      await change(driver, added(first))
      t.match(ip('-d', 'link', 'show', 'bond0'), /alias stratum:x\b/)
      t.same(await differing(driver, [first]), [])
      const made = dump()
      const undo = await change(driver, changed(first, second))
      t.same(await differing(driver, [second]), [])
      await undo()
      t.same(dump(), made, 'taken back')
      // Settings that the kernel takes while it is up, and those for which it must be made anew.
      for (const more of [{ miimon: 50, hashPolicy: 'layer3+4' }, { mode: 'balance-xor' }] as const) {
        const other = link('x', { name: 'bond0', mtu: 1400, device: { type: 'bond', mode, ...more } })
        const back = await change(driver, changed(first, other))
        t.same(await differing(driver, [other]), [], JSON.stringify(more))
        await back()
        t.same(await differing(driver, [first]), [])
      }
      const undoRemoval = await change(driver, removed(first))
      t.same(dump(), before, 'gone')
      await undoRemoval()
      t.same(await differing(driver, [first]), [], 'the removal taken back')
      await change(driver, removed(first))
      t.same(dump(), before)
      t.equal(await driver.changedByOthers(), false, 'nobody else did anything')
    })
  }

  t.test('a member is taken down, put in, moved, taken back, and released as it was found', async (t) => {
    for (const name of ['nic', 'nid']) ip('link', 'add', name, 'type', 'veth', 'peer', 'name', `${name}p`)
    ip('link', 'set', 'nic', 'up')
    const driver = await openDriver(t)
    const [one, two] = [bond('x', 'bond1', 'active-backup'), bond('x', 'bond2', 'active-backup')]
    await change(driver, added(one, two, bridge('x', 'br1', { mac: '02:00:00:00:00:01' })))
    const ports = () => dump().links.filter(({ ifname }) => ifname === 'nic' || ifname === 'nid')
    const before = ports()
    const [up, down] = [member('x', 'nic', 'bond1', true), member('x', 'nid', 'bond1')]

    const undo = await change(driver, added(up, down))
    t.match(ports(), [{ master: 'bond1' }, { master: 'bond1' }])
    t.same(await differing(driver, [one, two, bridge('x', 'br1', { mac: '02:00:00:00:00:01' }), up, down]), [])
    await undo()
    t.same(ports(), before, 'taken back')

    await change(driver, added(up, down))
    const back = await change(driver, changed(up, member('x', 'nic', 'bond2', true)))
    t.match(
      ports().find(({ ifname }) => ifname === 'nic'),
      { master: 'bond2' },
    )
    await back()
    t.match(ports(), [{ master: 'bond1' }, { master: 'bond1' }])
    const release = await change(driver, removed(up, down))
    t.same(ports(), before, 'released')
    await release()
    t.match(ports(), [{ master: 'bond1' }, { master: 'bond1' }], 'the release taken back')
    t.equal(await driver.changedByOthers(), false)

    // With the bond at once, and the bond itself in a bridge.
    await change(driver, added(member('x', 'bond1', 'br1')))
    const whole = await change(driver, removed(member('x', 'bond1', 'br1'), up, down, one))
    t.same(ports(), before, 'gone with the bond')
    await whole()
    t.match(ports(), [{ master: 'bond1' }, { master: 'bond1' }], 'and back with it')
    await change(driver, removed(member('x', 'bond1', 'br1'), up, down, one, two))
    t.same(ports(), before)
    await change(driver, removed(bridge('x', 'br1')))
    for (const name of ['nic', 'nid']) ip('link', 'del', name)
  })

  t.test('what no bond takes is refused before it is taken down: the routes of others stay', async (t) => {
    ip('link', 'set', 'lo', 'up')
    ip('address', 'add', '10.2.0.1/24', 'dev', 'lo')
    ip('route', 'add', '10.2.9.0/24', 'dev', 'lo')
    const driver = await openDriver(t)
    const wanted = bond('x', 'bond0', 'active-backup')
    await change(driver, added(wanted))
    const before = [ip('route'), ip('link', 'show', 'lo')]
    t.match(before[0], /10\.2\.9\.0\/24/)
    await t.rejects(change(driver, added(member('x', 'lo', 'bond0', true))), { message: /no Ethernet device/ })
    t.same([ip('route'), ip('link', 'show', 'lo')], before)
    // This shows no earlier than when it is tried.
    ip('link', 'add', 'link', 'bond0', 'name', 'vl7', 'type', 'vlan', 'id', '7')
    ip('link', 'set', 'vl7', 'up')
    await t.rejects(change(driver, added(member('x', 'vl7', 'bond0', true))), { message: /vl7 as a port of bond0/ })
    t.match(ip('link', 'show', 'vl7'), /^(?!.*master).*[<,]UP/, 'it is up again')
    ip('link', 'del', 'vl7')
    await change(driver, removed(wanted))
    ip('address', 'del', '10.2.0.1/24', 'dev', 'lo')
    ip('link', 'set', 'lo', 'down')
  })

  t.test('what others do to a bond of ours is noticed and put right', async (t) => {
    for (const name of ['nic', 'nid']) ip('link', 'add', name, 'type', 'veth', 'peer', 'name', `${name}p`)
    const driver = await openDriver(t)
    const wanted = [bond('x', 'bond0', '802.3ad', { mtu: 1400 }), member('x', 'nic', 'bond0', true)]
    await change(driver, added(...wanted))
    t.equal(await driver.changedByOthers(), false)
    const meddling: string[][][] = [
      [['link', 'set', 'nic', 'nomaster']],
      [['link', 'set', 'bond0', 'mtu', '1300']],
      [['link', 'set', 'nid', 'master', 'bond0']],
      [
        ['link', 'set', 'bond0', 'down'],
        ['link', 'set', 'nic', 'nomaster'],
        ['link', 'set', 'bond0', 'type', 'bond', 'mode', 'balance-rr'],
      ],
      [['link', 'del', 'bond0']],
    ]
    for (const commands of meddling) {
      const what = commands.map((args) => args.join(' ')).join(', ')
      for (const args of commands) ip(...args)
      t.equal(await driver.changedByOthers(), true, what)
      await driver.apply(await differing(driver, wanted), 'restore')
      t.same(await differing(driver, wanted), [], `${what}: repaired`)
      t.equal(await driver.changedByOthers(), false, `${what}: nothing else`)
    }
    t.match(ip('link', 'show', 'nid'), /^(?!.*master)/, 'a device of others is out again')
    await change(driver, removed(...wanted))
    for (const name of ['nic', 'nid']) ip('link', 'del', name)
  })
}
