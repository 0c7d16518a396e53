/** Two tenants with the same private range, as their guests and their portals see it. */
import t from 'tap'
import { overTls } from '../../../test/agent.ts'
import { netns, requireRoot } from '../../../test/netns.ts'
import { type Guest, workloadNode } from '../../../test/workload.ts'

requireRoot(t)

const P = '/api/v1'

t.test('tenant-10 auth-10 tkey-10 tenants with the same range never meet', async (t) => {
  const node = await workloadNode(t)
  const guests = ['a', 'b', 'c', 'd'].map((name) => node.guest(name)) as [Guest, Guest, Guest, Guest]
  await node.guarded(...guests)
  const [a, b, c, d] = guests
  const side = async (name: string, one: Guest, two: Guest) => {
    const { id } = (await node.ok('POST', `${P}/tenant`, { name })).tenant as { id: string }
    const fields = { name, cidr: '10.0.0.0/24', tenant_id: id }
    const network = ((await node.ok('POST', `${P}/networks`, fields)).network as { id: string }).id
    // The same addresses with the same default MACs on both sides, so their ports are declared.
    for (const [guest, ip] of [
      [one, '10.0.0.1'],
      [two, '10.0.0.2'],
    ] as const) {
      const wanted = { machine: `${name}-${guest.port}`, network, ip, port: guest.port }
      const { nic } = await node.ok('POST', '/control/v1/compute/machines', wanted)
      guest.setMac((nic as { mac: string }).mac)
      guest.ns.run('ip', 'address', 'add', `${ip}/24`, 'dev', 'eth0')
    }
    const { secret } = (await node.ok('POST', `${P}/tenant/${id}/keys`, { label: 'portal' })) as { secret: string }
    return { id, network, secret }
  }
  const [red, blue] = [await side('red', a, b), await side('blue', c, d)]
  for (const guest of [a, c]) t.ok(guest.reaches('10.0.0.2'), 'each reaches its neighbour')
  await node.inNetwork(...guests)

  const before = [b, d].map(requests)
  a.ns.run('ping', '-n', '-q', '-c', '20', '-i', '0.01', '10.0.0.2')
  t.same([b, d].map(requests), [Number(before[0]) + 20, before[1]], 'twenty requests at red, none at blue')

  const outside = netns(t, 'portal')
  node.ns.run('ip', 'link', 'add', 'mgmt', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', outside.name)
  node.ns.run('ip', 'address', 'add', '192.0.2.1/24', 'dev', 'mgmt')
  node.ns.run('ip', 'link', 'set', 'mgmt', 'up')
  outside.run('ip', 'address', 'add', '192.0.2.9/24', 'dev', 'eth0')
  outside.run('ip', 'link', 'set', 'eth0', 'up')
  const over = (secret: string, path: string) =>
    overTls(outside, 'https://192.0.2.1:7070')('GET', path, undefined, { authorization: `Bearer ${secret}` })
  for (const one of [red, blue]) {
    const { body } = await over(one.secret, `${P}/tenant/${one.id}/networks`)
    t.same(
      (body.networks as { id: string }[]).map(({ id }) => id),
      [one.network],
      'its own network alone',
    )
    t.match((await over(one.secret, `${P}/tenant/${one.id}/usage`)).body.usage, { networks: 1, endpoints: 2 })
    const other = one === red ? blue : red
    t.equal((await over(one.secret, `${P}/tenant/${other.id}/networks`)).status, 403)
    t.same(
      ((await node.ok('GET', `${P}/ipam/allocations?tenant_id=${one.id}`)).allocations as []).length,
      2,
      'its own addresses alone',
    )
  }

  const machines = async ({ id, secret }: { id: string; secret: string }) =>
    (await over(secret, `${P}/tenant/${id}/machines`)).body.machines as Record<string, unknown>[]
  for (const [one, guests] of [
    [red, [a, b]],
    [blue, [c, d]],
  ] as const) {
    const shown = await machines(one)
    t.same(
      shown.map(({ id }) => String(id).replace(/^[a-z]+-/, '')),
      guests.map(({ port }) => port),
      'its own machines alone',
    )
    t.match(shown, [{ state: 'connected' }, { state: 'connected' }])
    t.notMatch(JSON.stringify(shown), /"port"/, 'the node keeps the names of its devices to itself')
  }
  const nicOf = (machine: Record<string, unknown> = {}) =>
    ((machine.networks ?? []) as Record<string, number>[])[0] ?? {}
  const { packets_in: got = 0, bytes_in: bytes = 0 } = nicOf((await machines(red))[1])
  t.ok(got >= 20 && bytes >= 20 * 98, `what came to it is counted: ${got} packets, ${bytes} bytes`)
  const away = String((await machines(red))[0]?.id)
  a.unplug()
  await node.unguarded(a)
  t.match((await over(red.secret, `${P}/tenant/${red.id}/machines/${away}`)).body, {
    machine: { state: 'disconnected' },
  })
  t.equal((await over(red.secret, `${P}/tenant/${red.id}/machines/${(await machines(blue))[0]?.id}`)).status, 404)
  a.plug()
  await node.guarded(a)

  await node.ok('DELETE', `${P}/tenant/${red.id}`)
  t.ok(c.reaches('10.0.0.2'), 'blue goes on without red')
  await node.open(a, b)
  t.equal((await over(red.secret, `${P}/tenant/${red.id}`)).status, 401)
  t.match(await node.ok('POST', '/control/v1/drift', { dry_run: true }), { status: 'clean' })
})

/** Echo requests that a guest got (InEchos of /proc/net/snmp). */
function requests({ ns }: Guest): number {
  const lines = ns.run('cat', '/proc/net/snmp').split('\n')
  const [names = [], values = []] = lines.filter((line) => line.startsWith('Icmp:')).map((line) => line.split(' '))
  return Number(values[names.indexOf('InEchos')])
}
