/** What others made or do, beside addresses, routes, policy rules and neighbours of ours. */
import t from 'tap'
import { here } from '../../../test/inside.ts'
import { requireRoot } from '../../../test/netns.ts'
import { address, type NetlinkEntry, neighbour, policy, route } from '../entries.ts'
import { added, change, changed, differing, dump, ip, openDriver, quiet, removed, site } from './driver-rig.ts'

if (requireRoot(t) && here !== undefined) all()

function all() {
  quiet()
  site('left')

  t.test('persist-04 what somebody else made is refused, even if identical, and never removed', async (t) => {
    ip('address', 'add', '10.5.0.1/24', 'dev', 'left')
    ip('route', 'add', '10.6.0.0/16', 'via', '10.1.0.2')
    ip('-6', 'route', 'add', 'fd06::/32', 'via', 'fd01::2')
    ip('rule', 'add', 'from', '10.9.0.0/16', 'lookup', '100', 'priority', '100')
    ip('neigh', 'add', '10.1.0.5', 'lladdr', '02:00:00:00:00:aa', 'dev', 'left', 'nud', 'permanent')
    ip('route', 'add', '10.7.0.0/16', 'via', '10.1.0.2', 'metric', '5')
    const before = dump()
    const driver = await openDriver(t)
    t.same(await driver.observe([]), [])
    const foreign = [
      address('x', { link: 'left', address: '10.5.0.1/24' }),
      route('x', { destination: '10.6.0.0/16', gateway: '10.1.0.2' }),
      route('x', { destination: '10.6.0.0/16', gateway: '10.1.0.3' }),
      route('x', { destination: 'fd06::/32', gateway: 'fd01::2' }),
      route('x', { destination: 'fd06::/32', gateway: 'fd01::3' }),
      neighbour('x', { link: 'left', address: '10.1.0.5', mac: '02:00:00:00:00:aa' }),
    ]
    for (const entry of foreign) {
      await t.rejects(
        driver.apply(added(entry)),
        { name: 'KernelRefusal', message: /exists and is not ours$/ },
        entry.key,
      )
      await change(driver, removed(entry))
      t.same(dump(), before, entry.key)
    }
    // Rules are told apart by who made them: two that are alike stand side by side.
    const rule = policy('x', { priority: 100, from: '10.9.0.0/16', table: 100 })
    await change(driver, added(rule))
    await change(driver, removed(rule))
    await change(driver, removed(rule))
    t.same(dump(), before)
    const ours = route('x', { destination: '10.6.0.0/16', gateway: '10.1.0.3', metric: 1 })
    await change(driver, added(ours))
    await t.rejects(
      driver.apply(changed(foreign[1] as NetlinkEntry, foreign[2] as NetlinkEntry)),
      { name: 'KernelRefusal' },
      'what was ours and is no more is not overwritten',
    )
    await change(driver, removed(ours))
    // One with the same next hop and another metric would go instead.
    await change(driver, removed(route('x', { destination: '10.7.0.0/16', gateway: '10.1.0.2' })))
    t.same(dump(), before)
    ip('address', 'del', '10.5.0.1/24', 'dev', 'left')
    for (const args of ['10.6.0.0/16', '10.7.0.0/16', 'fd06::/32']) ip('route', 'del', args)
    ip('rule', 'del', 'priority', '100')
    ip('neigh', 'del', '10.1.0.5', 'dev', 'left')
  })

  t.test('addresses of one subnet do not go with the first of them', async (t) => {
    const driver = await openDriver(t)
    const before = dump()
    const first = address('x', { link: 'left', address: '10.5.0.1/24' })
    const second = address('y', { link: 'left', address: '10.5.0.2/24' })
    await change(driver, added(first, second))
    ip('address', 'add', '10.5.0.3/24', 'dev', 'left')
    const undo = await change(driver, removed(first))
    t.same(await differing(driver, [second]), [])
    t.match(ip('address', 'show', 'left'), /10\.5\.0\.3\/24/)
    await undo()
    t.same(await differing(driver, [first, second]), [])
    await change(driver, removed(first, second))
    ip('address', 'del', '10.5.0.3/24', 'dev', 'left')
    t.same(dump(), before)
    t.match(ip('-d', 'address'), /./)
  })

  t.test('a neighbour that the kernel learned is overwritten, one that somebody set is not', async (t) => {
    const driver = await openDriver(t)
    ip('neigh', 'add', '10.1.0.5', 'lladdr', '02:00:00:00:00:aa', 'dev', 'left', 'nud', 'stale')
    const entry = neighbour('x', { link: 'left', address: '10.1.0.5', mac: '02:00:00:00:00:bb' })
    await change(driver, added(entry))
    t.same(await differing(driver, [entry]), [])
    ip('neigh', 'replace', '10.1.0.5', 'lladdr', '02:00:00:00:00:cc', 'dev', 'left', 'nud', 'permanent')
    t.equal(await driver.changedByOthers(), true)
    await change(driver, await differing(driver, [entry]))
    t.same(await differing(driver, [entry]), [])
    await change(driver, removed(entry))
    t.notMatch(ip('neigh'), /10\.1\.0\.5/)
  })

  t.test('a removed policy rule takes no narrower one with it', async (t) => {
    const driver = await openDriver(t)
    const before = dump()
    const narrow = [
      policy('x', { priority: 100, from: '10.9.0.0/16', iif: 'left', table: 100 }),
      policy('x', { priority: 100, from: '10.9.0.0/16', fwmark: 3, table: 100 }),
      policy('y', { priority: 100, from: '10.9.0.0/16', oif: 'left', table: 100 }),
    ]
    const wide = policy('x', { priority: 100, from: '10.9.0.0/16', table: 100 })
    await change(driver, added(...narrow))
    const unmade = await change(driver, added(wide))
    await unmade()
    t.same(await differing(driver, narrow), [], 'when its addition is taken back')
    const allUnmade = await change(driver, [...removed(...narrow), ...added(wide)])
    await allUnmade()
    t.same(await differing(driver, narrow), [])
    await change(driver, added(wide))
    const undo = await change(driver, removed(wide))
    t.same(await differing(driver, narrow), [])
    await undo()
    t.same(await differing(driver, [...narrow, wide]), [])
    await change(driver, removed(wide, ...narrow))
    t.same(dump(), before)
  })

  t.test('what the kernel says to a change that it refuses is told', async (t) => {
    const driver = await openDriver(t)
    const before = dump()
    const refused: [NetlinkEntry, RegExp][] = [
      [
        route('x', { destination: '10.6.0.0/16', gateway: '198.51.100.1' }),
        /^route to 10\.6\.0\.0\/16 .*Network is unreachable: Nexthop has invalid gateway$/,
      ],
      [route('x', { destination: 'fd06::/32', gateway: '2001:db8::1' }), /No route to host|Network is unreachable/],
      [
        route('x', { destination: '10.6.0.0/16', gateway: '10.1.0.2', source: '10.1.0.99' }),
        /Invalid argument: Invalid prefsrc address$/,
      ],
      [route('x', { destination: '10.6.0.0/16', link: 'lost' }), /: interface lost does not exist$/],
      [
        address('x', { link: 'lost', address: '10.5.0.1/24' }),
        /^address 10\.5\.0\.1\/24 on lost: interface lost does not exist$/,
      ],
      [
        neighbour('x', { link: 'lost', address: '10.5.0.1', mac: '02:00:00:00:00:aa' }),
        /interface lost does not exist$/,
      ],
    ]
    for (const [entry, message] of refused) {
      await t.rejects(driver.apply(added(entry)), { name: 'KernelRefusal', message }, entry.key)
      t.same(dump(), before)
    }
  })

  t.test('what others do to ours is noticed, what they do to theirs is not', async (t) => {
    const driver = await openDriver(t)
    const entries = [
      address('x', { link: 'left', address: '10.5.0.1/24' }),
      address('x', { link: 'left', address: 'fd05::1/64' }),
      route('x', { destination: '10.6.0.0/16', gateway: '10.1.0.2' }),
      route('x', { destination: 'fd06::/32', gateway: 'fd01::2' }),
      policy('x', { priority: 100, from: '10.9.0.0/16', table: 100 }),
      neighbour('x', { link: 'left', address: '10.1.0.5', mac: '02:00:00:00:00:aa' }),
    ]
    await change(driver, added(...entries))
    t.equal(await driver.changedByOthers(), false)
    const meddling: string[][] = [
      ['address', 'del', '10.5.0.1/24', 'dev', 'left'],
      ['address', 'del', 'fd05::1/64', 'dev', 'left'],
      ['route', 'del', '10.6.0.0/16'],
      ['route', 'replace', '10.6.0.0/16', 'via', '10.1.0.7'],
      ['-6', 'route', 'del', 'fd06::/32'],
      ['route', 'add', '10.99.0.0/16', 'via', '10.1.0.2', 'proto', '240'],
      ['rule', 'del', 'priority', '100'],
      ['rule', 'add', 'priority', '101', 'lookup', '5', 'protocol', '240'],
      ['neigh', 'del', '10.1.0.5', 'dev', 'left'],
      ['link', 'set', 'left', 'down'],
    ]
    for (const args of meddling) {
      ip(...args)
      t.equal(await driver.changedByOthers(), true, args.join(' '))
      t.ok((await differing(driver, entries)).length > 0, args.join(' '))
      if (args.includes('down')) {
        ip('link', 'set', 'left', 'up')
        ip('address', 'add', 'fd01::1/64', 'dev', 'left', 'nodad')
      }
      if (args.includes('replace')) ip('route', 'del', '10.6.0.0/16')
      await driver.apply(await differing(driver, entries), 'restore')
      t.same(await differing(driver, entries), [], `${args.join(' ')} repaired`)
      t.equal(await driver.changedByOthers(), false)
    }
    const theirs: string[][] = [
      ['address', 'add', '10.5.0.9/24', 'dev', 'leftp'],
      ['route', 'add', '10.77.0.0/16', 'via', '10.1.0.2'],
      ['route', 'replace', '10.77.0.0/16', 'via', '10.1.0.3'],
      ['route', 'del', '10.77.0.0/16'],
      ['rule', 'add', 'priority', '102', 'lookup', '5'],
      ['rule', 'del', 'priority', '102'],
      ['neigh', 'add', '10.1.0.6', 'lladdr', '02:00:00:00:00:aa', 'dev', 'left', 'nud', 'reachable'],
      ['neigh', 'del', '10.1.0.6', 'dev', 'left'],
      ['address', 'del', '10.5.0.9/24', 'dev', 'leftp'],
    ]
    for (const args of theirs) {
      ip(...args)
      t.equal(await driver.changedByOthers(), false, args.join(' '))
    }
    await change(driver, removed(...entries))
  })
}
