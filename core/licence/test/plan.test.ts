import t from 'tap'
import { fc } from '../../../test/property.ts'
import { CAPABILITIES, frozenExempt, PLAN, planGate } from '../plan.ts'

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE']

const GATED: [id: string, title: string, paths: string[]][] = [
  ['gate-01', 'Private Networks', ['/networks', '/networks/', '/networks/net-1', '/networks/net-1/endpoints/ep-1/mac']],
  ['gate-02', 'DNS', ['/dns/zones', '/dns/zones/1/records', '/dns/nothing']],
  ['gate-03', 'DHCP', ['/dhcp/leases', '/dhcp/nothing']],
  ['gate-04', 'VXLAN', ['/vxlan/vnis', '/vxlan/1/peers']],
  ['gate-05', 'Load Balancer', ['/lb', '/lb/', '/lb/vip1', '/lb/vip1/backends/b']],
  ['gate-06', 'BGP', ['/bgp/neighbors', '/bgp/policy']],
  ['gate-07', 'Gateway HA', ['/gateway/status', '/gateway/snat', '/gateway/snat/1']],
  ['gate-08', 'Bandwidth shaping', ['/bandwidth', '/bandwidth/', '/bandwidth/pools/p1']],
  ['gate-09', 'Cluster', ['/cluster', '/cluster/', '/cluster/state', '/cluster/join', '/cluster/nothing/below']],
  ['gate-14', 'Private Networks', ['/routed-addresses', '/routed-addresses/rng-1', '/routed-addresses/192.0.2.0/24']],
]

for (const [id, title, paths] of GATED) {
  t.test(`${id} every call, read or write, needs ${title}`, async (t) => {
    for (const path of paths) {
      for (const method of METHODS) t.equal(planGate(method, path)?.title, title, `${method} ${path}`)
    }
  })
}

t.test('gate-10 gate-09 the five routes need no Cluster feature, with or without a trailing slash', async (t) => {
  const exempt: [string, string][] = [
    ['GET', '/cluster/status'],
    ['GET', '/cluster/join-codes'],
    ['DELETE', '/cluster/join-codes/jc-1'],
    ['DELETE', '/cluster/members/node-2'],
    ['POST', '/cluster/leave'],
  ]
  for (const [method, path] of exempt) {
    t.equal(planGate(method, path), undefined, `${method} ${path}`)
    t.equal(planGate(method, `${path}/`), undefined, `${method} ${path}/`)
    if (method === 'GET') t.equal(planGate('HEAD', path), undefined, `HEAD ${path}`)
  }
})

t.test('gate-09 what only looks like one of the five routes needs the Cluster feature', async (t) => {
  const gated: [string, string][] = [
    ['POST', '/cluster/status'],
    ['GET', '/cluster/statusx'],
    ['GET', '/cluster/status//'],
    ['GET', '/cluster/status/x'],
    ['POST', '/cluster/join-codes'],
    ['GET', '/cluster/join-codes/jc-1'],
    ['DELETE', '/cluster/join-codes'],
    ['DELETE', '/cluster/join-codes/'],
    ['DELETE', '/cluster/join-codes//'],
    ['DELETE', '/cluster/join-codes/a/b'],
    ['PUT', '/cluster/members/node-2'],
    ['DELETE', '/cluster/members'],
    ['DELETE', '/cluster/members/node-2/x'],
    ['DELETE', '/cluster/leave'],
    ['POST', '/cluster/leave/x'],
    ['GET', '/cluster/leave'],
  ]
  for (const [method, path] of gated) t.equal(planGate(method, path)?.capability, 'cluster', `${method} ${path}`)
})

t.test('gate-15 a prefix matches whole segments only', async (t) => {
  const paths = ['/lbx', '/networksx', '/networks-x/1', '/clusterx', '/bandwidthx', '/routed-addressesx', '/dnsx/a']
  for (const path of [...paths, '/LB', '/x/lb', '//lb', 'lb', '/', '', '/constructor', '/__proto__/x']) {
    t.equal(planGate('GET', path), undefined, path)
  }
})

t.test('gate-15 a prefix listed only with what is below it does not gate the bare word', async (t) => {
  for (const path of ['/dns', '/dhcp', '/vxlan', '/bgp', '/gateway']) t.equal(planGate('GET', path), undefined, path)
})

t.test('everything else needs no feature', async (t) => {
  const free =
    'ipam rules routes vlan bridges nics macbind forward bonds float flows accounting tenant billing containers'
  for (const word of [...free.split(' '), 'health', 'status', 'license', 'docs', 'tls', 'tasks', 'vms']) {
    t.equal(planGate('POST', `/${word}`), undefined, word)
    t.equal(planGate('GET', `/${word}/1`), undefined, `${word}/1`)
  }
})

t.test(
  'lic-11 removing a member, leaving and revoking a join code are never frozen; nothing else is exempt',
  async (t) => {
    t.ok(frozenExempt('DELETE', '/cluster/members/node-2'))
    t.ok(frozenExempt('DELETE', '/cluster/join-codes/jc-1/'))
    t.ok(frozenExempt('POST', '/cluster/leave'))
    for (const path of ['/cluster/join', '/cluster/members/a', '/lb', '/rules', '/cluster/leave/x', '/cluster']) {
      t.notOk(frozenExempt('POST', path), `POST ${path}`)
    }
    for (const path of ['/cluster/leave', '/cluster/members/', '/rules/1']) t.notOk(frozenExempt('DELETE', path), path)
  },
)

t.test('lic-07 there are nine features, each gated once', async (t) => {
  t.equal(CAPABILITIES.length, 9)
  t.equal(new Set(CAPABILITIES).size, 9)
  t.equal(new Set(PLAN.flatMap((gate) => gate.prefixes)).size, 10)
})

t.test('planGate agrees with the plain reading of the table on any path', async (t) => {
  const words = PLAN.flatMap((gate) => gate.prefixes).flatMap((prefix) => [prefix, prefix.replace(/\/$/, '')])
  const path = fc
    .tuple(fc.constantFrom(...words, '/rules'), fc.array(fc.constantFrom('/', 'x', 'members', 'leave', '\u0000', 'é')))
    .map(([head, tail]) => head + tail.join(''))
  const plain = (path: string) =>
    PLAN.find((gate) =>
      gate.prefixes.some((prefix) =>
        prefix.endsWith('/') ? path.startsWith(prefix) : path === prefix || path.startsWith(`${prefix}/`),
      ),
    )
  fc.assert(
    fc.property(fc.oneof(path, fc.string()), (path) => planGate('PATCH', path) === plain(path)),
    { numRuns: 2000 },
  )
  fc.assert(
    fc.property(fc.constantFrom(...METHODS), path, (method, path) => {
      const gate = planGate(method, path)
      // Whatever is exempt from the freeze is exempt from the plan as well.
      return gate === undefined || !frozenExempt(method, path)
    }),
    { numRuns: 1000 },
  )
  t.ok(true)
})
