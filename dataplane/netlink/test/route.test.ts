import t from 'tap'
import { netns, requireRoot, type Scope } from '../../../test/netns.ts'
import { ROUTE_PROTOCOL } from '../../numbers.ts'
import { addAddress } from '../address.ts'
import { NETLINK_ROUTE } from '../bind.ts'
import { createVeth, getLink, setLink } from '../link.ts'
import { addRoute, deleteRoute, listRoutes, lookupRoute, type NewRoute, replaceRoute } from '../route.ts'
import { netlinkIn } from './open.ts'

requireRoot(t)

const OURS = { protocol: ROUTE_PROTOCOL }

/** A namespace with one link that has 10.1.0.1/24 and fd01::1/64. */
async function site(t: Scope) {
  const ns = netns(t)
  const netlink = netlinkIn(t, ns, NETLINK_ROUTE)
  await netlink.command(createVeth({ name: 'sta', up: true }, { name: 'stb' }))
  await netlink.command(setLink('stb', { up: true }))
  const index = (await getLink(netlink, 'sta'))?.index ?? 0
  await netlink.command(addAddress({ index, cidr: '10.1.0.1/24' }))
  await netlink.command(addAddress({ index, cidr: 'fd01::1/64', noDad: true }))
  return { ns, netlink, index }
}

t.test('routes of both versions are added, listed, replaced and deleted', async (t) => {
  const { ns, netlink, index } = await site(t)
  const routes: NewRoute[] = [
    { dst: '0.0.0.0/0', gateway: '10.1.0.254', metric: 50 },
    { dst: '10.9.0.0/16', gateway: '10.1.0.2', prefsrc: '10.1.0.1' },
    { dst: '10.8.0.0/16', oif: index, table: 100_000 },
    { dst: '10.7.0.0/16', type: 'blackhole', table: 200 },
    { dst: '10.6.0.0/16', gateway: 'fe80::1', oif: index },
    { dst: '10.5.0.0/16', gateway: '192.0.2.1', oif: index, onlink: true },
    { dst: '::/0', gateway: 'fd01::2', metric: 7 },
    { dst: 'fd09::/32', oif: index, table: 100_000 },
  ]
  t.same(
    await netlink.request(routes.map(addRoute)),
    routes.map(() => undefined),
  )
  const table = 254
  t.same(
    (await listRoutes(netlink, OURS)).sort((a, b) => a.dst.localeCompare(b.dst)),
    [
      { version: 6, dst: '::/0', table, ...OURS, type: 'unicast', metric: 7, gateway: 'fd01::2', oif: index },
      { version: 4, dst: '0.0.0.0/0', table, ...OURS, type: 'unicast', metric: 50, gateway: '10.1.0.254', oif: index },
      {
        version: 4,
        dst: '10.5.0.0/16',
        table,
        ...OURS,
        type: 'unicast',
        gateway: '192.0.2.1',
        oif: index,
        onlink: true,
      },
      { version: 4, dst: '10.6.0.0/16', table, ...OURS, type: 'unicast', gateway: 'fe80::1', oif: index },
      { version: 4, dst: '10.7.0.0/16', table: 200, ...OURS, type: 'blackhole' },
      { version: 4, dst: '10.8.0.0/16', table: 100_000, ...OURS, type: 'unicast', oif: index, scope: 253 },
      {
        version: 4,
        dst: '10.9.0.0/16',
        table,
        ...OURS,
        type: 'unicast',
        gateway: '10.1.0.2',
        oif: index,
        prefsrc: '10.1.0.1',
      },
      { version: 6, dst: 'fd09::/32', table: 100_000, ...OURS, type: 'unicast', metric: 1024, oif: index },
    ],
  )
  t.match(ns.run('ip', 'route', 'show', '10.9.0.0/16'), /via 10\.1\.0\.2 dev sta proto 201 src 10\.1\.0\.1/)

  await netlink.command(replaceRoute({ dst: '10.9.0.0/16', gateway: '10.1.0.3' }))
  t.match(await listRoutes(netlink, { ...OURS, version: 4, table: 254 }), [
    { dst: '0.0.0.0/0' },
    { dst: '10.5.0.0/16' },
    { dst: '10.6.0.0/16' },
    { dst: '10.9.0.0/16', gateway: '10.1.0.3' },
  ])

  const { prefsrc: _, ...ninth } = { ...routes[1], dst: '10.9.0.0/16', gateway: '10.1.0.3' }
  t.same(
    await netlink.request(routes.map((route) => deleteRoute(route.dst === ninth.dst ? ninth : route))),
    routes.map(() => undefined),
  )
  t.same(await listRoutes(netlink, OURS), [])
})

t.test('tables are listed apart, and one that does not exist is empty', async (t) => {
  const { netlink, index } = await site(t)
  await netlink.command(addRoute({ dst: '10.8.0.0/16', oif: index, table: 100_000 }))
  t.match(await listRoutes(netlink, { table: 100_000 }), [{ dst: '10.8.0.0/16', table: 100_000 }])
  t.match(await listRoutes(netlink, { table: 100_000, version: 4 }), [{ dst: '10.8.0.0/16' }])
  t.same(await listRoutes(netlink, { table: 100_000, version: 6 }), [])
  t.same(await listRoutes(netlink, { table: 4_000_000_000 }), [])
  t.same(await listRoutes(netlink, { table: 4_000_000_000, version: 4 }), [])
  const all = await listRoutes(netlink)
  t.ok(
    all.some(({ protocol, dst }) => protocol === 2 && dst === '10.1.0.0/24'),
    'routes of the kernel are told',
  )
})

t.test('a deletion never takes a route that somebody else made', async (t) => {
  const { ns, netlink } = await site(t)
  ns.run('ip', 'route', 'add', '10.9.0.0/16', 'via', '10.1.0.2')
  ns.run('ip', 'route', 'add', 'fd09::/32', 'via', 'fd01::2')
  await t.rejects(netlink.command(deleteRoute({ dst: '10.9.0.0/16' })), { code: 'ESRCH' })
  await t.rejects(netlink.command(deleteRoute({ dst: 'fd09::/32' })), { code: 'ESRCH' })
  t.match(ns.run('ip', 'route', 'show', '10.9.0.0/16'), /via 10\.1\.0\.2/)
})

t.test('a lookup tells the way to a destination, or why there is none', async (t) => {
  const { netlink, index } = await site(t)
  await netlink.request([
    addRoute({ dst: '10.9.0.0/16', gateway: '10.1.0.2' }),
    addRoute({ dst: '10.7.0.0/16', type: 'prohibit' }),
    addRoute({ dst: 'fd09::/32', gateway: 'fd01::2' }),
  ])
  t.same(await lookupRoute(netlink, '10.9.1.1'), { oif: index, gateway: '10.1.0.2', prefsrc: '10.1.0.1' })
  t.same(await lookupRoute(netlink, '10.1.0.7', { oif: index }), { oif: index, prefsrc: '10.1.0.1' })
  t.same(await lookupRoute(netlink, '127.0.0.5'), { oif: 1, type: 'local', prefsrc: '127.0.0.1' })
  t.same(await lookupRoute(netlink, 'fd09::1'), { oif: index, gateway: 'fd01::2', prefsrc: 'fd01::1' })
  await t.rejects(lookupRoute(netlink, '198.51.100.1'), { code: 'ENETUNREACH' })
  await t.rejects(lookupRoute(netlink, '2001:db8::1'), { code: 'ENETUNREACH' })
  await t.rejects(lookupRoute(netlink, '10.7.0.1'), { code: 'EACCES' })
})
