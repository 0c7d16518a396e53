/** REST of BGP over a plane in memory: what is taken, what is refused, and what bgpd shall hold then. */
import t from 'tap'
import { BGP, bgpArea } from './area.ts'

const NEIGHBOR = { peer_addr: '192.0.2.2', peer_as: 65002, local_as: 65001 }

t.test(
  'bgp-03 bgp-04 bgp-05 neighbors are created with defaults, refused when they cannot be, and deleted',
  async (t) => {
    const { call, sure, events, held, agent, logged, plane } = await bgpArea(t)
    const post = (more: object) => call('POST', `${BGP}/neighbors`, { ...NEIGHBOR, ...more })
    for (const key of ['peer_addr', 'peer_as', 'local_as'] as const) {
      const { [key]: _, ...rest } = NEIGHBOR
      t.match(await call('POST', `${BGP}/neighbors`, rest), { status: 400, body: { error: `${key} is required` } })
    }
    const refused: [object, RegExp][] = [
      [{ peer_addr: '' }, /peer_addr is required/],
      [{ peer_addr: 'x' }, /not an IP address/],
      [{ peer_addr: '127.0.0.1' }, /loopback/],
      [{ peer_addr: 'fe80::1' }, /link-local/],
      [{ peer_addr: '192.0.2.2\n shutdown' }, /peer_addr/],
      [{ peer_as: 0 }, /peer_as/],
      [{ peer_as: 4_294_967_296 }, /peer_as/],
      [{ local_as: '65001' }, /local_as/],
      [{ hold_time: 2 }, /hold_time/],
      [{ hold_time: 9, keepalive_interval: 9 }, /keepalive_interval/],
      [{ hold_time: 0, keepalive_interval: 1 }, /keepalive_interval/],
      [{ md5_key: '' }, /md5_key/],
      [{ md5_key: 'a b' }, /md5_key/],
      [{ md5_key: 'ü' }, /md5_key/],
      [{ md5_key: 'x'.repeat(81) }, /md5_key/],
      [{ bfd_interval_ms: 49 }, /bfd_interval_ms/],
      [{ bfd_multiplier: 1 }, /bfd_multiplier/],
    ]
    for (const [more, error] of refused)
      t.match(await post(more), { status: 400, body: { error } }, JSON.stringify(more))
    t.same(held(), [], 'nothing of it is in force')
    const created = await post({ md5_key: 'S3cret-Key' })
    t.match(created, {
      status: 201,
      body: {
        status: 'created',
        neighbor: {
          id: '192.0.2.2',
          hold_time: 90,
          keepalive_interval: 30,
          bfd_enabled: false,
          bfd_interval_ms: 300,
          bfd_multiplier: 3,
          bfd_status: 'disabled',
        },
      },
    })
    t.match(await post({}), { status: 409, body: { error: /^neighbor .* already exists$/ } })
    t.ok(JSON.stringify([...plane.entries.values()]).includes('password S3cret-Key'), 'bgpd gets the key')
    const seen = [
      created.text,
      (await call('GET', `${BGP}/neighbors`)).text,
      JSON.stringify(agent.outbox.after(0, 1000)),
      JSON.stringify(logged),
      (await call('GET', '/api/v1/metrics')).text,
    ]
    t.notOk(
      seen.some((text) => text.includes('S3cret-Key')),
      'and nobody else',
    )
    t.ok(
      [...plane.entries.keys()].some((key) => key.includes('tcp . 179 . 192.0.2.2')),
      'it may come in',
    )
    await sure('POST', '/neighbors', { ...NEIGHBOR, peer_addr: '2001:DB8::0:2' })
    t.match(await call('DELETE', `${BGP}/neighbors/2001%3adb8::2`), {
      status: 200,
      body: { status: 'deleted', addr: '2001:db8::2' },
    })
    t.equal((await call('DELETE', `${BGP}/neighbors/192.0.2.3`)).status, 404)
    t.equal((await call('DELETE', `${BGP}/neighbors/x`)).status, 404)
    await sure('DELETE', '/neighbors/192.0.2.2')
    t.same(held(), [])
    t.same(events(), ['neighbor.created', 'neighbor.created', 'neighbor.deleted', 'neighbor.deleted'])
  },
)

t.test('a second AS: towards other ASes by the same speaker, within itself by one beside it', async (t) => {
  const { sure, held, plane } = await bgpArea(t)
  const add = (peer_addr: string, peer_as: number, local_as: number) =>
    sure('POST', '/neighbors', { peer_addr, peer_as, local_as })
  await sure('POST', '/announce', { prefix: '198.51.100.0/24' })
  t.same(held(), [], 'without neighbors nobody is told')
  await add('192.0.2.2', 65002, 65001)
  await add('192.0.2.3', 65003, 65100)
  await add('192.0.2.4', 65100, 65100)
  t.same(
    held().filter((key) => /instance|network/.test(key)),
    [
      'bgp/instance/65001',
      'bgp/instance/65100',
      'bgp/network/65001/198.51.100.0/24',
      'bgp/network/65100/198.51.100.0/24',
    ],
  )
  t.match(JSON.stringify(plane.entries.get('bgp/neighbor/192.0.2.3')), /local-as 65100 no-prepend replace-as/)
  await sure('DELETE', '/neighbors/192.0.2.2')
  await sure('DELETE', '/neighbors/192.0.2.3')
  t.same(
    held().filter((key) => /instance|network/.test(key)),
    ['bgp/instance/65100', 'bgp/network/65100/198.51.100.0/24'],
  )
  await sure('DELETE', '/neighbors/192.0.2.4')
  t.same(held(), [])
})

t.test('bgp-15 bgp-16 announcements are read, changed and withdrawn', async (t) => {
  const { call, sure, events, held } = await bgpArea(t)
  for (const [body, error] of [
    [{}, /prefix is required/],
    [{ prefix: 'x' }, /CIDR/],
    [{ prefix: '192.0.2.1' }, /CIDR/],
    [{ prefix: '192.0.2.1/24' }, /host bits; the network is 192.0.2.0\/24/],
    [{ prefix: '192.0.2.0/33' }, /CIDR/],
    [{ prefix: '192.0.2.0/24', next_hop: '::1' }, /next_hop/],
    [{ prefix: '192.0.2.0/24', next_hop: 'fd00::1' }, /family/],
    [{ prefix: '192.0.2.0/24', communities: ['1:65536'] }, /communities/],
    [{ prefix: '192.0.2.0/24', communities: ['no-export\nexit'] }, /communities/],
    [{ prefix: '192.0.2.0/24', communities: ['internet'] }, /communities/],
  ] as const) {
    t.match(await call('POST', `${BGP}/announce`, body), { status: 400, body: { error } }, JSON.stringify(body))
  }
  await sure('POST', '/neighbors', NEIGHBOR)
  const bare = held()
  t.same(
    await sure('POST', '/announce', {
      prefix: '198.51.100.0/24',
      next_hop: '192.0.2.9',
      communities: ['2:1', '1:2', 'no-export', '65535:65281'],
    }),
    { status: 'announced', prefix: '198.51.100.0/24' },
  )
  t.match((await sure('GET', '/routes')).routes, [
    { next_hop: '192.0.2.9', communities: ['1:2', '2:1', 'no-export'], source: 'announced' },
  ])
  await sure('POST', '/announce', { prefix: '198.51.100.0/24' })
  t.match((await sure('GET', '/routes')).routes, [{ next_hop: '0.0.0.0', communities: [] }])
  await sure('POST', '/announce', { prefix: '2001:DB8::/32', next_hop: '2001:db8::9' })
  t.match(await sure('GET', '/routes?family=ipv6'), {
    family: 'ipv6',
    routes: [{ prefix: '2001:db8::/32', next_hop: '2001:db8::9' }],
  })
  t.same((await sure('GET', '/routes?peer=192.0.2.2')).routes, [])
  t.same((await sure('GET', '/routes?best=false')).routes, [])
  for (const query of ['family=ipv5', 'family=', 'peer=x', 'best=1'])
    t.equal((await call('GET', `${BGP}/routes?${query}`)).status, 400, query)
  t.equal((await call('POST', `${BGP}/withdraw`, { prefix: '203.0.113.0/24' })).status, 404)
  await sure('POST', '/withdraw', { prefix: '198.51.100.0/24' })
  await sure('POST', '/withdraw', { prefix: '2001:db8::/32' })
  t.same(held(), bare, 'nothing is left of them')
  t.same(events().slice(1), [
    'announcement.created',
    'announcement.updated',
    'announcement.created',
    'announcement.deleted',
    'announcement.deleted',
  ])
})

t.test('bgp-17 bgp-18 bgp-19 bgp-20 bgp-21 bgp-22 bgp-23 lists, maps and policies', async (t) => {
  const { call, sure, events, held } = await bgpArea(t)
  const list = (entries: unknown, name = 'l') => call('POST', `${BGP}/prefix-lists`, { name, entries })
  const map = (entries: unknown, name = 'm') => call('POST', `${BGP}/route-maps`, { name, entries })
  for (const action of ['allow', 'PERMIT', 'Deny', 'bLoCk', '']) {
    t.equal((await list([{ prefix: '10.0.0.0/8', action }])).status, 200, action)
    t.equal((await map([{ action }])).status, 200, action)
  }
  for (const action of ['accept', 'permit ', 'x\ny']) {
    t.equal((await list([{ prefix: '10.0.0.0/8', action }])).status, 400, action)
    t.equal((await map([{ action }])).status, 400, action)
  }
  for (const entry of [
    { ge: 7 },
    { le: 7 },
    { ge: 24, le: 16 },
    { le: 33 },
    { ge: -1 },
    { prefix: '10.0.0.1/8' },
    { prefix: '::/0', ge: 129 },
  ]) {
    t.equal((await list([{ prefix: '10.0.0.0/8', ...entry }])).status, 400, JSON.stringify(entry))
  }
  t.equal((await list([], 'a\nb')).status, 400)
  t.same(
    (
      await list([
        { prefix: '10.0.0.0/8', ge: 16, le: 24 },
        { prefix: '2001:db8::/32', action: 'block' },
      ])
    ).body,
    { status: 'updated', prefix_list: 'l' },
  )
  t.same((await sure('GET', '/prefix-lists')).prefix_lists, [
    {
      name: 'l',
      entries: [
        { prefix: '10.0.0.0/8', action: 'permit', ge: 16, le: 24 },
        { prefix: '2001:db8::/32', action: 'deny', ge: 0, le: 0 },
      ],
    },
  ])
  t.match(await map([{ match_prefix: 'none' }]), { status: 400, body: { error: /match_prefix/ } })
  t.match(await map([{ seq: 5 }, { seq: 5 }]), { status: 400, body: { error: /twice/ } })
  t.match(await map([{ set_community: '1:2 x' }]), { status: 400 })
  await map([
    { seq: 20, action: 'deny' },
    { seq: 5, match_prefix: 'l', set_local_pref: 200, set_community: '2:2, 1:1', set_med: 0 },
    { set_community: ['no-export'] },
  ])
  t.same((await sure('GET', '/route-maps')).route_maps, [
    {
      name: 'm',
      entries: [
        { seq: 5, action: 'permit', match_prefix: 'l', set_local_pref: 200, set_community: '1:1 2:2', set_med: 0 },
        { seq: 15, action: 'permit', match_prefix: '', set_community: 'no-export' },
        { seq: 20, action: 'deny', match_prefix: '' },
      ],
    },
  ])
  t.match(await call('DELETE', `${BGP}/prefix-lists/l`), {
    status: 409,
    body: { error: 'prefix-list l is used by route-map m' },
  })
  await sure('POST', '/neighbors', NEIGHBOR)
  t.equal((await call('POST', `${BGP}/policy/both`, { neighbor: '192.0.2.2', route_map: 'm' })).status, 400)
  t.equal((await call('POST', `${BGP}/policy/import`, { neighbor: '192.0.2.3', route_map: 'm' })).status, 404)
  t.equal((await call('POST', `${BGP}/policy/import`, { neighbor: '192.0.2.2', route_map: 'n' })).status, 404)
  const policy = { neighbor: '192.0.2.2', route_map: 'm' }
  t.same(await sure('POST', '/policy/import', policy), { status: 'updated', direction: 'import', ...policy })
  await sure('POST', '/policy/export', policy)
  t.same(await sure('GET', '/policy'), { import: { '192.0.2.2': 'm' }, export: { '192.0.2.2': 'm' } })
  t.equal((await call('DELETE', `${BGP}/route-maps/m`)).status, 409)
  t.same(await sure('DELETE', '/policy/import/192.0.2.2'), {
    status: 'deleted',
    direction: 'import',
    neighbor: '192.0.2.2',
  })
  t.equal((await call('DELETE', `${BGP}/policy/import/192.0.2.2`)).status, 404)
  await sure('DELETE', '/neighbors/192.0.2.2')
  t.same(await sure('GET', '/policy'), { import: {}, export: {} }, 'a policy goes with its neighbor')
  t.same(await sure('DELETE', '/route-maps/m'), { status: 'deleted', route_map: 'm' })
  t.same(await sure('DELETE', '/prefix-lists/l'), { status: 'deleted', prefix_list: 'l' })
  t.equal((await call('DELETE', `${BGP}/prefix-lists/l`)).status, 404)
  t.same(held(), [])
  t.same(events().slice(-7), [
    'neighbor.created',
    'bgp_policy.updated',
    'bgp_policy.updated',
    'bgp_policy.deleted',
    'neighbor.deleted',
    'route_map.deleted',
    'prefix_list.deleted',
  ])
})

t.test('an internal neighbor of a second AS says that its routes are not installed', async (t) => {
  const { call } = await bgpArea(t)
  const add = async (body: object) => {
    const answer = await call('POST', `${BGP}/neighbors`, body)
    return (answer.body.neighbor as { installs_routes: boolean }).installs_routes
  }
  t.equal(await add(NEIGHBOR), true)
  t.equal(await add({ peer_addr: '192.0.2.3', peer_as: 65003, local_as: 65003 }), false)
  t.equal(await add({ peer_addr: '192.0.2.4', peer_as: 65004, local_as: 65003 }), true)
})
