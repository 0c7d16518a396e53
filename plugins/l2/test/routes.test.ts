/** Bridges and NICs over REST, over a plane in memory whose devices the test makes up. */
import t from 'tap'
import type { Link } from '../../../dataplane/netlink/link.ts'
import { fakePlane } from '../../../dataplane/plane.fake.ts'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { type BuildAgentOptions, type BuiltAgent, buildArea } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'

const device = (index: number, name: string, more: Partial<Link> = {}): Link => ({
  ...{ index, name, mtu: 1500, up: true, running: true, group: 0 },
  ...more,
})
const DEVICES = [
  device(1, 'lo'),
  device(2, 'eth0'),
  device(3, 'tap0'),
  device(4, 'br-mgmt', { kind: 'bridge' }),
  device(5, 'br-work', { kind: 'bridge' }),
  device(6, 'tap1', { master: 5 }),
]

async function l2(t: Scope, options: BuildAgentOptions = {}): Promise<BuiltAgent & { events(): string[] }> {
  const plane = fakePlane()
  const nics = [
    {
      name: 'eth0',
      pci: '0000:00:03.0',
      driver: 'virtio_net',
      speedMbps: 10_000,
      status: 'up' as const,
      renamed: false,
    },
    { name: 'wan0', pci: '', driver: 'e1000', speedMbps: 0, status: 'down' as const, renamed: true },
  ]
  Object.assign(plane, { devices: { ...plane.devices, links: async () => DEVICES, nics: async () => nics } })
  const built = await buildArea(t, 'l2', { ...options, plane, config: { uplink: 'eth0', ...options.config } })
  const start = built.agent.outbox.bounds().latest
  return { ...built, events: () => built.agent.outbox.after(start, 100).map(({ type }) => type) }
}
const names = ({ body }: { body: Record<string, unknown> }) => body.bridges

t.test('bridge-01 bridge-02 a fresh node lists the managed bridges with the ports they have', async (t) => {
  const { call } = await l2(t)
  t.same(names(await call('GET', '/api/v1/bridges')), [
    { name: 'br-mgmt', interfaces: [] },
    { name: 'br-work', interfaces: ['tap1'] },
  ])
})

t.test('bridge-03 bridge-04 bridge-05 D8 a bridge is made once and removed', async (t) => {
  const { call, plane, events } = await l2(t)
  const before = [...plane.entries.keys()].sort()
  const made = await call('POST', '/api/v1/bridges', { name: 'br-lab' })
  t.same([made.status, made.body], [201, { status: 'created', bridge: { name: 'br-lab', interfaces: [] } }])
  t.ok(plane.entries.has('l2/link/br-lab'))
  for (const name of ['br-lab', 'br-work']) {
    const again = await call('POST', '/api/v1/bridges', { name })
    t.same([again.status, again.body], [409, { error: `bridge ${name} already exists` }])
  }
  for (const body of [{}, { name: '' }, { name: 7 }, { name: 'sixteen-letters-' }, { name: 'a/b' }, { name: '..' }]) {
    t.equal((await call('POST', '/api/v1/bridges', body)).status, 400, JSON.stringify(body))
  }
  const gone = await call('DELETE', '/api/v1/bridges/br-lab')
  t.same([gone.status, gone.body], [200, { status: 'deleted', name: 'br-lab' }])
  t.equal((await call('DELETE', '/api/v1/bridges/br-lab')).status, 404)
  t.same([...plane.entries.keys()].sort(), before)
  t.same(events(), ['bridge.created', 'bridge.deleted'])
})

t.test('bridge-06 bridge-07 bridge-08 a port goes in and out', async (t) => {
  const { call, plane, events } = await l2(t)
  const added = await call('POST', '/api/v1/bridges/br-work/ports', { interface: 'tap0' })
  t.same([added.status, added.body], [200, { status: 'added', bridge: 'br-work', interface: 'tap0' }])
  t.ok(plane.entries.has('l2/member/tap0'))
  t.equal((await call('POST', '/api/v1/bridges/br-work/ports', { interface: 'tap0' })).status, 200, 'again')
  const elsewhere = await call('POST', '/api/v1/bridges/br-mgmt/ports', { interface: 'tap0' })
  t.same([elsewhere.status, elsewhere.body], [409, { error: 'tap0 is a port of br-work' }])
  t.equal(
    (await call('POST', '/api/v1/bridges/br-mgmt/ports', { interface: 'tap1' })).status,
    409,
    'put there by others',
  )
  t.equal((await call('POST', '/api/v1/bridges/nope/ports', { interface: 'tap0' })).status, 404)
  for (const body of [
    {},
    { interface: '' },
    { interface: 'missing0' },
    { interface: 'lo' },
    { interface: 'br-mgmt' },
  ]) {
    t.equal((await call('POST', '/api/v1/bridges/br-work/ports', body)).status, 400, JSON.stringify(body))
  }
  const removed = await call('DELETE', '/api/v1/bridges/br-work/ports/tap0')
  t.same([removed.status, removed.body], [200, { status: 'removed', bridge: 'br-work', interface: 'tap0' }])
  t.equal((await call('DELETE', '/api/v1/bridges/br-work/ports/tap0')).status, 404)
  t.equal((await call('DELETE', '/api/v1/bridges/br-work/ports/tap1')).status, 404, 'not put there by the API')
  t.equal((await call('DELETE', '/api/v1/bridges/nope/ports/tap0')).status, 404)
  t.same(events(), ['bridge.added', 'bridge.added', 'bridge.removed'])
})

t.test('bridge-10 a managed bridge, and one that has ports, stays', async (t) => {
  const { call } = await l2(t)
  const managed = await call('DELETE', '/api/v1/bridges/br-mgmt')
  t.same([managed.status, managed.body], [409, { error: 'bridge br-mgmt is managed by the node and stays' }])
  await call('POST', '/api/v1/bridges', { name: 'br-lab' })
  await call('POST', '/api/v1/bridges/br-lab/ports', { interface: 'tap0' })
  const used = await call('DELETE', '/api/v1/bridges/br-lab')
  t.same([used.status, used.body], [409, { error: 'bridge br-lab is in use: remove its ports first (tap0)' }])
})

t.test('D49 what may cut the node off needs force=1', async (t) => {
  const { call } = await l2(t)
  const uplink = { interface: 'eth0' }
  t.equal((await call('POST', '/api/v1/bridges/br-mgmt/ports', uplink)).status, 409)
  t.equal((await call('POST', '/api/v1/bridges/br-mgmt/ports?force=0', uplink)).status, 409)
  t.equal((await call('POST', '/api/v1/bridges/br-mgmt/ports?force=yes', uplink)).status, 400)
  t.equal((await call('POST', '/api/v1/bridges/br-mgmt/ports?force=1', uplink)).status, 200)
  t.equal((await call('DELETE', '/api/v1/bridges/br-mgmt/ports/eth0')).status, 409)
  t.equal((await call('DELETE', '/api/v1/bridges/br-mgmt/ports/eth0?force=1')).status, 200)
})

t.test('nic-01 nic-02 nic-04 the cards are listed and cannot be changed', async (t) => {
  const { call } = await l2(t)
  const wanted = {
    nics: [
      {
        ...{ original_name: 'eth0', stratum_name: 'eth0', pci: '0000:00:03.0', driver: 'virtio_net' },
        ...{ speed_mbps: 10_000, status: 'up' },
      },
      { original_name: '', stratum_name: 'wan0', pci: '', driver: 'e1000', speed_mbps: 0, status: 'down' },
    ],
  }
  for (const query of ['', '?refresh=1', '?refresh=0']) t.same((await call('GET', `/api/v1/nics${query}`)).body, wanted)
  t.equal((await call('GET', '/api/v1/nics?refresh=maybe')).status, 400)
  for (const method of ['POST', 'PUT', 'DELETE']) t.equal((await call(method, '/api/v1/nics', {})).status, 404, method)
})

t.test('err-11 what the kernel refuses leaves no row', async (t) => {
  const { call, plane } = await l2(t)
  plane.refuse = new KernelRefusal('interface br-lab exists and is not ours')
  const refused = await call('POST', '/api/v1/bridges', { name: 'br-lab' })
  t.same(
    [refused.status, refused.body.error],
    [409, 'the kernel refused the change: interface br-lab exists and is not ours'],
  )
  t.equal((names(await call('GET', '/api/v1/bridges')) as unknown[]).length, 2)
})

t.test('workload_uplinks is put into force at once', async (t) => {
  const { agent, plane } = await l2(t)
  agent.overrides.change((content) => {
    content.config.workload_uplinks = 'eth0, eth1'
  })
  await agent.config.reload()
  t.ok(plane.entries.has('l2/uplink/eth0') && plane.entries.has('l2/uplink/eth1'))
})
