import '../../../../test/inside.ts'
import { createServer } from 'node:net'
import t from 'tap'
import { requireRoot } from '../../../../test/netns.ts'
import { objectPath } from '../../test/support.ts'
import {
  backend,
  backendAddress6,
  CLIENT,
  lab,
  NODE,
  outsideAddress,
  outsideAddress6,
  tallied,
  VIP,
  VIP6,
  vip,
} from './lab.ts'

requireRoot(t)

const it = await lab(t, 2)
for (const [n, machine] of it.backends.entries()) {
  const name = `b${n + 1}`
  await machine.tell('listen', { protocol: 'tcp', port: 8080, name })
  await machine.tell('listen', { protocol: 'udp', port: 8080, name })
  await machine.tell('listen', { protocol: 'tcp', port: 8081, name: `${name}-other` })
}
const two = [backend(1), backend(2)]
const two6 = [1, 2].map((n) => backend(n, { address: backendAddress6(n) }))
const at = { address: VIP, port: 80 }
const { client } = it
const bulk = 'bulk '.repeat(100_000)

/**
 * A backend asks for the client's MAC address from the virtual one, where both are on one link; the client's answer would go to
 * the node that has it (RFC 4861, section 7.2.4). So they meet before.
 */
const meet = (machine: typeof client) => machine.tell('ask', { address: '2001:db8:1::2', port: 9 })

t.test('IPv6: TCP and UDP, and the client keeps its address', async (t) => {
  for (const protocol of ['tcp', 'udp'] as const) {
    const entry = vip({ address: VIP6, protocol, backends: two6 })
    await it.put(entry)
    const answers = await client.tell('ask', { protocol, address: VIP6, port: 80, count: 10 })
    t.same(tallied(answers), { b1: 5, b2: 5 }, answers.join())
    t.ok(answers.every((answer) => answer.includes(' 2001:db8:1::2')))
    t.same(await it.balancer.driver.observe(), [entry])
    await it.apply({ before: entry })
  }
})

t.test('IPv6: without any backend TCP is reset, by the programs and not by the node', async (t) => {
  const server = createServer((socket) => socket.end('the node itself\n')).listen(80, '::')
  for (const address of [VIP, VIP6]) {
    const entry = vip({ address })
    await it.put(entry)
    t.same(await client.tell('ask', { address, port: 80 }), ['ECONNREFUSED'])
    await it.apply({ before: entry })
  }
  server.close()
})

t.test('bulk passes whole, segmented as the devices like', async (t) => {
  for (const [address, backends] of [
    [VIP, two],
    [VIP6, two6],
  ] as const) {
    const entry = vip({ address, backends })
    await it.put(entry)
    const { handle } = await client.tell('open', { address, port: 80 })
    t.equal(await client.tell('say', { handle, text: bulk }), 'same')
    await client.tell('close', { handle, how: 'fin' })
    await it.apply({ before: entry })
  }
})

t.test('a backend asks the address that it serves itself', async (t) => {
  const entry = vip({ backends: [backend(1)] })
  await it.put(entry)
  for (const machine of it.backends) {
    const answers = await machine.tell('ask', { ...at, count: 5 })
    t.same(tallied(answers), { b1: 5 }, answers.join())
    t.ok(
      answers.every((answer) => answer.endsWith(' 10.9.0.1')),
      'from the node',
    )
  }
  await it.apply({ before: entry })
  const entry6 = vip({ address: VIP6, backends: [backend(1, { address: backendAddress6(1) })] })
  await it.put(entry6)
  for (const machine of it.backends) {
    t.same(await machine.tell('ask', { address: VIP6, port: 80 }), ['b1 fd09::1'])
  }
  await it.apply({ before: entry6 })
})

t.test('a backend off the node, which knows no way to the client by this node', async (t) => {
  const outside = it.outside(1)
  await outside.tell('listen', { protocol: 'tcp', port: 8080, name: 'o1' })
  await outside.tell('listen', { protocol: 'udp', port: 8080, name: 'o1' })
  for (const protocol of ['tcp', 'udp'] as const) {
    const entry = vip({ protocol, backends: [backend(1, { address: outsideAddress(1) })] })
    await it.put(entry)
    const answers = await client.tell('ask', { protocol, ...at, count: 3 })
    t.ok(
      answers.every((answer) => answer.startsWith(`o1 ${NODE}`)),
      answers.join(),
    )
    t.match(await it.backends[0]?.tell('ask', { protocol, ...at }), [new RegExp(`^o1 ${NODE}`)], 'a workload')
    await it.apply({ before: entry })
  }
  const entry6 = vip({ address: VIP6, backends: [backend(1, { address: outsideAddress6(1) })] })
  await it.put(entry6)
  t.same(await client.tell('ask', { address: VIP6, port: 80 }), ['o1 2001:db8:1::1'])
  await it.apply({ before: entry6 })
  await outside.ns.remove()
})

t.test('every port of an address, of which one is served otherwise', async (t) => {
  const all = vip({ port: 0, backends: [backend(1, { port: 0 })] })
  const one = vip({ id: 'one', key: 'lb/vip/one', port: 8081, backends: [backend(2, { port: 8081 })] })
  await it.put(all)
  t.same(await client.tell('ask', { address: VIP, port: 8080 }), [`b1 ${CLIENT}`])
  t.same(await client.tell('ask', { address: VIP, port: 8081 }), [`b1-other ${CLIENT}`])
  t.same(await client.tell('ask', { address: VIP, port: 9 }), ['ECONNREFUSED'], 'the backend refuses')
  await it.put(one)
  t.same(await client.tell('ask', { address: VIP, port: 8081 }), [`b2-other ${CLIENT}`], 'the specific one wins')
  const observed = await it.balancer.driver.observe()
  t.same(new Map(observed.map((entry) => [entry.key, entry])), new Map([all, one].map((entry) => [entry.key, entry])))
  await it.apply({ before: all }, { before: one })
})

t.test('two addresses at one backend, from one port of the client at once', async (t) => {
  const web = vip({ backends: [backend(1)] })
  const other = vip({ id: 'other', key: 'lb/vip/other', port: 81, backends: [backend(1)] })
  await it.apply({ after: web }, { after: other })
  const localPort = 41_000
  const one = await client.tell('open', { ...at, localPort })
  const second = await client.tell('open', { address: VIP, port: 81, localPort })
  t.match([one.line, second.line], [/^b1 198/, /^b1 10\.9\.0\.1/], 'the second cannot have the same tuple')
  for (const { handle } of [one, second]) t.equal(await client.tell('say', { handle, text: 'mine' }), 'same')
  await it.apply({ before: other })
  t.equal(await client.tell('say', { handle: one.handle, text: 'shared no longer' }), 'same')
  t.match(await client.tell('ask', at), [/^b1/])
  await it.apply({ before: web })
})

t.test('direct server return: the answer comes straight from the backend (lb-23)', async (t) => {
  const outside = it.outside(2)
  await outside.tell('listen', { protocol: 'tcp', port: 80, name: 'o2' })
  for (const address of [`${VIP}/32`, `${VIP6}/128`]) outside.ns.run('ip', 'address', 'add', address, 'dev', 'lo')
  await meet(outside)
  for (const [address, backends] of [
    [VIP, [backend(1, { address: outsideAddress(2), port: 80 })]],
    [VIP6, [backend(1, { address: outsideAddress6(2), port: 80 })]],
  ] as const) {
    const entry = vip({ address, dsr: true, backends })
    await it.put(entry)
    t.match(await client.tell('ask', { address, port: 80 }), [/^o2 (198\.51\.100\.2|2001:db8:1::2)$/])
    const { handle } = await client.tell('open', { address, port: 80 })
    t.equal(await client.tell('say', { handle, text: bulk }), 'same')
    t.equal(it.balancer.balancer.activeConnections('web', 'b1'), 1)
    await client.tell('close', { handle, how: 'fin' })
    t.equal(it.balancer.balancer.activeConnections('web', 'b1'), 0)
    await it.apply({ before: entry })
  }
  await outside.ns.remove()
})

t.test('direct server return to a backend behind a router, in another packet', async (t) => {
  const outside = it.outside(3)
  await outside.tell('listen', { protocol: 'tcp', port: 80, name: 'o3' })
  await meet(outside)
  const own = ['10.77.0.5', 'fd77::5']
  for (const address of [VIP, VIP6, ...own]) {
    outside.ns.run('ip', 'address', 'add', `${address}/${address.includes(':') ? 128 : 32}`, 'dev', 'lo')
  }
  outside.ns.run('tc', 'qdisc', 'add', 'dev', 'eth0', 'clsact')
  outside.ns.run('tc', 'filter', 'add', 'dev', 'eth0', 'ingress', 'bpf', 'da', 'obj', objectPath('decap'), 'sec', 'tc')
  const { run } = await import('../../test/support.ts')
  run('ip', 'route', 'add', '10.77.0.0/24', 'via', outsideAddress(3))
  run('ip', '-6', 'route', 'add', 'fd77::/64', 'via', outsideAddress6(3))
  for (const [n, address] of [VIP, VIP6].entries()) {
    const entry = vip({ address, dsr: true, backends: [backend(1, { address: own[n] ?? '', port: 80 })] })
    await it.put(entry)
    t.match(await client.tell('ask', { address, port: 80 }), [/^o3 (198\.51\.100\.2|2001:db8:1::2)$/], address)
    await it.apply({ before: entry })
  }
  run('ip', 'route', 'del', '10.77.0.0/24')
  run('ip', '-6', 'route', 'del', 'fd77::/64')
  await outside.ns.remove()
})

t.test('direct server return from a backend whose way to the client is this node', async (t) => {
  const inside = it.backends[0]
  if (inside === undefined) return
  await inside.tell('listen', { protocol: 'tcp', port: 80, name: 'b1-direct' })
  inside.ns.run('ip', 'address', 'add', `${VIP}/32`, 'dev', 'lo')
  const entry = vip({ dsr: true, backends: [backend(1, { port: 80 })] })
  await it.put(entry)
  t.same(await client.tell('ask', at), [`b1-direct ${CLIENT}`])
  inside.ns.run('ip', 'address', 'del', `${VIP}/32`, 'dev', 'lo')
  await it.apply({ before: entry })
})

t.same(it.problems, [])
