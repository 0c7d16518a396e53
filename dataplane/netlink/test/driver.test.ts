/** Addresses, routes, policy rules and neighbours over the real kernel, in a network namespace of this file. */
import t from 'tap'
import { here } from '../../../test/inside.ts'
import { requireRoot } from '../../../test/netns.ts'
import { NETLINK_ROUTE } from '../bind.ts'
import { address, type NetlinkEntry, neighbour, policy, route } from '../entries.ts'
import { openMonitor, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE } from '../monitor.ts'
import { RTM_NEWROUTE } from '../route.ts'
import { added, change, changed, differing, dump, ip, openDriver, quiet, removed, site } from './driver-rig.ts'

if (requireRoot(t) && here !== undefined) all()

function all() {
  quiet()
  site('left')

  const kinds: [
    name: string,
    first: NetlinkEntry,
    second: NetlinkEntry | undefined,
    shown: RegExp,
    ...show: string[],
  ][] = [
    [
      'IPv4 address',
      address('x', { link: 'left', address: '10.5.0.1/24' }),
      address('x', { link: 'left', address: '10.5.0.1/24', noPrefixRoute: true }),
      /10\.5\.0\.1\/24/,
      'address',
    ],
    [
      'IPv6 address',
      address('x', { link: 'left', address: 'FD05:0::1/64', noPrefixRoute: true }),
      address('x', { link: 'left', address: 'fd05::1/64' }),
      /fd05::1\/64/,
      'address',
    ],
    [
      'routed address',
      address('x', { link: 'left', address: '10.5.0.9/32', scope: 253 }),
      undefined,
      /10\.5\.0\.9/,
      'address',
    ],
    [
      'IPv4 route',
      route('x', { destination: '10.6.0.7/16', gateway: '10.1.0.2' }),
      route('x', { destination: '10.6.0.0/16', gateway: '10.1.0.3', source: '10.1.0.1' }),
      /10\.6\.0\.0\/16 via 10\.1\.0\.2 dev left proto 240/,
      'route',
    ],
    [
      'IPv4 route by a link, then nowhere',
      route('x', { destination: '10.6.0.0/16', link: 'left', metric: 7, table: 100_000 }),
      route('x', { destination: '10.6.0.0/16', type: 'blackhole', metric: 7, table: 100_000 }),
      /10\.6\.0\.0\/16 dev left proto 240 scope link metric 7/,
      'route',
      'show',
      'table',
      '100000',
    ],
    [
      'IPv4 route by an unknown gateway of a link',
      route('x', { destination: '0.0.0.0/0', gateway: '192.0.2.1', link: 'left', onlink: true, table: 7 }),
      route('x', { destination: '0.0.0.0/0', gateway: 'fe80::1', link: 'left', table: 7 }),
      /default via 192\.0\.2\.1 dev left proto 240 onlink/,
      'route',
      'show',
      'table',
      '7',
    ],
    [
      'IPv6 route',
      route('x', { destination: 'fd06::/32', gateway: 'fd01::2' }),
      route('x', { destination: 'fd06::/32', gateway: 'fd01::3' }),
      /fd06::\/32 via fd01::2 dev left proto 240 metric 1024/,
      '-6',
      'route',
    ],
    [
      'IPv6 route with another source by the same gateway',
      route('x', { destination: 'fd06::/32', gateway: 'fd01::2', metric: 5 }),
      route('x', { destination: 'fd06::/32', gateway: 'fd01::2', metric: 5, source: 'fd01::1' }),
      /fd06::\/32 via fd01::2 dev left proto 240 metric 5/,
      '-6',
      'route',
    ],
    [
      'IPv6 route by a link, then nowhere',
      route('x', { destination: '::/0', link: 'left', table: 9 }),
      route('x', { destination: '::/0', type: 'unreachable', table: 9 }),
      /default dev left proto 240/,
      '-6',
      'route',
      'show',
      'table',
      '9',
    ],
    [
      'IPv4 policy rule',
      policy('x', {
        priority: 10_000,
        from: '10.1.0.0/24',
        to: '10.9.0.0/16',
        fwmark: 1,
        iif: 'left',
        oif: 'lost',
        table: 100,
      }),
      undefined,
      /10000:\s+from 10\.1\.0\.0\/24 to 10\.9\.0\.0\/16 fwmark 0x1 iif left oif lost \[detached\] lookup 100 proto 240/,
      'rule',
    ],
    [
      'IPv6 policy rule',
      policy('x', { version: 6, priority: 10_001, fwmark: 0, fwmask: 0xff, table: 100_000 }),
      undefined,
      /10001:\s+from all fwmark 0\/0xff lookup 100000 proto 240/,
      '-6',
      'rule',
    ],
    [
      'IPv4 neighbour',
      neighbour('x', { link: 'left', address: '10.1.0.5', mac: '02:00:00:00:00:AA' }),
      neighbour('x', { link: 'left', address: '10.1.0.5', mac: '02:00:00:00:00:bb' }),
      /10\.1\.0\.5 dev left lladdr 02:00:00:00:00:aa PERMANENT/,
      'neigh',
    ],
    [
      'IPv6 neighbour',
      neighbour('x', { link: 'left', address: 'fd01:0::5', mac: '02:00:00:00:00:aa' }),
      neighbour('x', { link: 'left', address: 'fd01::5', mac: '02:00:00:00:00:bb' }),
      /fd01::5 dev left lladdr 02:00:00:00:00:aa PERMANENT/,
      'neigh',
    ],
  ]

  for (const [name, first, second, shown, ...show] of kinds) {
    t.test(`${name}: made, observed, changed, taken back, removed`, async (t) => {
      const before = dump()
      const driver = await openDriver(t)
      const unmade = await change(driver, added(first))
      await unmade()
      t.same(dump(), before, 'taken back')
      await change(driver, added(first))
      t.match(ip(...show), shown)
      t.same(await differing(driver, [first]), [])
      t.same(await differing(await openDriver(t), [first]), [], 'by another agent too')
      const made = dump()
      if (second) {
        const undo = await change(driver, changed(first, second))
        t.same(await differing(driver, [second]), [])
        t.ok((await differing(driver, [first])).length === 1)
        await undo()
        t.same(dump(), made, 'the change taken back')
        t.same(await differing(driver, [first]), [])
        await change(driver, changed(first, second))
      }
      const last = second ?? first
      const undo = await change(driver, removed(last))
      t.same(dump(), before, 'gone')
      await undo()
      t.same(await differing(driver, [last]), [], 'the removal taken back')
      await change(driver, removed(last))
      await change(driver, removed(last))
      t.same(dump(), before, 'removing what is not there is no error')
      t.equal(await driver.changedByOthers(), false)
    })
  }

  t.test('a route is replaced without a moment without one', async (t) => {
    const driver = await openDriver(t)
    const heard: string[] = []
    const monitor = openMonitor({
      protocol: NETLINK_ROUTE,
      groups: [RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE],
      onMessage: ({ type }) => heard.push(type === RTM_NEWROUTE ? 'made' : 'removed'),
      onOverflow: () => t.fail('overflow'),
      onError: (error) => t.fail(String(error)),
    })
    t.teardown(() => monitor.close())
    for (const [destination, a, b] of [
      ['10.6.0.0/16', '10.1.0.2', '10.1.0.3'],
      ['fd06::/32', 'fd01::2', 'fd01::3'],
    ] as const) {
      const [first, second] = [route('x', { destination, gateway: a }), route('x', { destination, gateway: b })]
      await change(driver, added(first))
      await change(driver, changed(first, second))
      await change(driver, removed(second))
      monitor.drain()
      t.same(heard.splice(0), ['made', 'made', 'removed', 'removed'], destination)
    }
  })
}
