import '../../../../test/inside.ts'
import t from 'tap'
import { here } from '../../../../test/inside.ts'
import { netnsNamed, requireRoot } from '../../../../test/netns.ts'
import { cgroupRoot } from '../sockets.ts'
import { backend, backendAddress6, lab, tallied, VIP, VIP6, vip } from './lab.ts'
import { machine } from './machine.ts'

requireRoot(t)
if (cgroupRoot() === undefined) {
  t.plan(0, 'needs a mount of the cgroups of version 2')
  process.exit(0)
}

const it = await lab(t, 2)
for (const [n, one] of it.backends.entries()) {
  for (const protocol of ['tcp', 'udp'] as const) await one.tell('listen', { protocol, port: 8080, name: `b${n + 1}` })
}
const node = machine(netnsNamed(t, here ?? ''))
const two = [backend(1), backend(2)]
const two6 = [1, 2].map((n) => backend(n, { address: backendAddress6(n) }))

for (const [address, backends, own] of [
  [VIP, two, '10.9.0.1'],
  [VIP6, two6, 'fd09::1'],
] as const) {
  t.test(`the node itself asks ${address}`, async (t) => {
    const tcp = vip({ address, backends })
    const udp = vip({ id: 'udp', key: 'lb/vip/udp', address, protocol: 'udp', backends })
    await it.apply({ after: tcp }, { after: udp })
    const answers = await node.tell('ask', { address, port: 80, count: 10 })
    t.same(tallied(answers), { b1: 5, b2: 5 }, answers.join())
    t.ok(answers.every((answer) => answer.endsWith(` ${own}`)))
    t.equal(await node.tell('peer', { address, port: 80 }), `${address}:80`, 'getpeername')
    const loose = await node.tell('ask', { protocol: 'udp', address, port: 80, count: 4 })
    t.ok(
      loose.every((answer) => answer.includes(`from ${address}:80`)),
      loose.join(),
    )
    const flow = await node.tell('flow', { address, port: 80, localPort: address === VIP ? 5100 : 5101, count: 4 })
    t.equal(Object.keys(tallied(flow)).length, 1, 'a socket stays with one backend')
    t.same(await node.tell('connected', { address, port: 80 }), [`${address}:80`, 'answered'])
    t.same(await node.tell('ask', { address, port: 81 }), ['ECONNREFUSED'], 'another port is the node itself')
    t.match(await it.client.tell('ask', { address, port: 80 }), [/^b/], 'others go on as before')

    const none = { ...tcp, backends: backends.map((one) => ({ ...one, state: 'down' as const })) }
    await it.apply({ before: tcp, after: none })
    t.same(await node.tell('ask', { address, port: 80 }), ['ECONNREFUSED'])
    await it.apply({ before: none }, { before: udp })
  })
}

t.same(it.problems, [])
