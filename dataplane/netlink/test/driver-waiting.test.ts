/** What cannot be in force now waits, is told, and comes into force by itself. */
import t, { type Test } from 'tap'
import { here } from '../../../test/inside.ts'
import { requireRoot } from '../../../test/netns.ts'
import type { NetlinkDriver } from '../driver.ts'
import { address, bridge, member, type NetlinkEntry, neighbour, route } from '../entries.ts'
import { added, change, differing, dump, ip, openDriver, quiet, removed, site } from './driver-rig.ts'

if (requireRoot(t) && here !== undefined) all()

function all() {
  quiet()
  site('left')

  t.test('what rests on a device that is gone waits for it, and keeps nothing else from being restored', async (t) => {
    const empty = dump()
    const driver = await openDriver(t)
    const waiting = [
      route('x', { destination: '10.60.0.0/16', link: 'tap0' }),
      address('x', { link: 'tap0', address: '10.61.0.1/24' }),
      route('x', { destination: '10.62.0.0/16', gateway: '10.61.0.2' }),
      member('x', 'tap1', 'br1'),
      neighbour('x', { link: 'tap0', address: '10.61.0.2', mac: '02:00:00:00:00:01' }),
    ]
    const others = [
      bridge('x', 'br1', { mac: '02:00:00:00:00:01' }),
      route('x', { destination: '10.63.0.0/16', gateway: '10.1.0.2' }),
    ]
    const desired = [...waiting, ...others]
    for (const entry of waiting)
      await t.rejects(driver.apply(added(entry)), { name: 'KernelRefusal' }, 'a change is refused')
    t.same(driver.pending(), [])

    const pass = () => restoring(t, driver, desired)
    await pass()
    t.same(pendingKeys(driver), waiting.map(({ key }) => key).sort())
    t.match(driver.pending(), [{ reason: /does not exist|unreachable/ }])
    t.match(ip('route'), /10\.63\.0\.0\/16/)
    t.equal(await driver.changedByOthers(), false, 'nothing is due while the device is away')
    t.same(await differing(driver, desired), [])

    const plug = () => {
      ip('link', 'add', 'tap0', 'type', 'veth', 'peer', 'name', 'tap1')
      ip('link', 'set', 'tap1', 'up')
      ip('link', 'set', 'tap0', 'up')
    }
    plug()
    t.equal(await driver.changedByOthers(), true, 'the device is there')
    // The gateway comes into reach with the address, in the same pass.
    await pass()
    t.same(driver.pending(), [])
    t.match(ip('route'), /10\.62\.0\.0\/16 via 10\.61\.0\.2 dev tap0/)
    t.equal(await driver.changedByOthers(), false)
    t.same(await differing(await openDriver(t), desired), [], 'all of it is in force')

    ip('link', 'set', 'tap0', 'down')
    t.equal(await driver.changedByOthers(), true, 'the kernel has removed the routes, and said nothing')
    await pass()
    t.ok(pendingKeys(driver).includes('x/route/254/10.60.0.0/16/0'))
    ip('link', 'set', 'tap0', 'up')
    t.equal(await driver.changedByOthers(), true)
    await pass()
    t.same(driver.pending(), [])

    ip('link', 'del', 'tap0')
    t.equal(await driver.changedByOthers(), true, 'the device is gone')
    await pass()
    t.same(pendingKeys(driver), waiting.map(({ key }) => key).sort())
    const [first] = waiting
    if (first) await change(driver, removed(first))
    t.notOk(pendingKeys(driver).includes(first?.key ?? ''), 'what is not wanted any more does not wait')
    if (first) await t.rejects(driver.apply(added(first)), { message: /interface tap0 does not exist/ })
    plug()
    await pass()
    t.same(await differing(await openDriver(t), desired), [])
    await change(driver, removed(...desired))
    ip('link', 'del', 'tap0')
    t.same(dump(), empty)
  })

  t.test('what somebody else has taken waits until it is free', async (t) => {
    const empty = dump()
    const driver = await openDriver(t)
    const desired = [
      bridge('x', 'br1', { mac: '02:00:00:00:00:01' }),
      address('x', { link: 'br1', address: '10.70.0.1/24' }),
      route('x', { destination: '10.71.0.0/16', gateway: '10.1.0.2' }),
      route('x', { destination: '10.72.0.0/16', gateway: '10.1.0.2' }),
    ]
    ip('link', 'add', 'br1', 'type', 'bridge')
    ip('route', 'add', '10.71.0.0/16', 'via', '10.1.0.9')
    await restoring(t, driver, desired)
    t.match(driver.pending(), [
      { key: 'x/link/br1', reason: 'interface br1 exists and is not ours' },
      { key: 'x/route/254/10.71.0.0/16/0', reason: /exists and is not ours/ },
    ])
    t.match(ip('route'), /10\.71\.0\.0\/16 via 10\.1\.0\.9/)
    t.equal(await driver.changedByOthers(), false)
    ip('route', 'del', '10.71.0.0/16')
    ip('link', 'del', 'br1')
    t.equal(await driver.changedByOthers(), true)
    await restoring(t, driver, desired)
    t.same(driver.pending(), [])
    t.same(await differing(await openDriver(t), desired), [])
    await change(driver, removed(...desired))
    t.same(dump(), empty)
  })

  t.test('of two areas that want what only one can have, one waits', async (t) => {
    const empty = dump()
    const driver = await openDriver(t)
    const first = route('x', { destination: '10.80.0.0/16', gateway: '10.1.0.2' })
    const second = route('y', { destination: '10.80.0.0/16', gateway: '10.1.0.3' })
    await restoring(t, driver, [first, second])
    t.match(driver.pending(), [{ key: second.key, reason: /exists and is not ours/ }])
    await change(driver, removed(first))
    await restoring(t, driver, [second])
    t.same(driver.pending(), [])
    t.match(ip('route'), /10\.80\.0\.0\/16 via 10\.1\.0\.3/)
    await change(driver, removed(second))
    t.same(dump(), empty)
  })
}

const pendingKeys = (driver: NetlinkDriver) =>
  driver
    .pending()
    .map(({ key }) => key)
    .sort()

/** Passes as drift detection makes them, until nothing is due. */
async function restoring(t: Test, driver: NetlinkDriver, desired: NetlinkEntry[]): Promise<void> {
  await driver.apply(await differing(driver, desired), 'restore')
  for (let n = 0; n < 3 && (await driver.changedByOthers()); n++) {
    await driver.apply(await differing(driver, desired), 'restore')
  }
  t.same(await differing(driver, desired), [])
}
