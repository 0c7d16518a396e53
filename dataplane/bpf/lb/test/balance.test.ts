import '../../../../test/inside.ts'
import t from 'tap'
import { requireRoot } from '../../../../test/netns.ts'
import { backend, CLIENT, lab, tallied, VIP, vip } from './lab.ts'

requireRoot(t)

const it = await lab(t, 3)
for (const [n, machine] of it.backends.entries()) {
  await machine.tell('listen', { protocol: 'tcp', port: 8080, name: `b${n + 1}` })
  await machine.tell('listen', { protocol: 'udp', port: 8080, name: `b${n + 1}`, address: '0.0.0.0' })
}
const three = [backend(1), backend(2), backend(3)]

t.test('round-robin over TCP: every backend its turn, and it sees the client itself (lb-15, lb-25)', async (t) => {
  const entry = vip({ backends: three })
  await it.put(entry)
  const answers = await it.client.tell('ask', { address: VIP, port: 80, count: 30 })
  t.same(tallied(answers), { b1: 10, b2: 10, b3: 10 })
  t.ok(
    answers.every((answer) => answer.endsWith(` ${CLIENT}`)),
    'the client keeps its address',
  )
  t.same(await it.balancer.driver.observe(), [entry])
  await it.apply({ before: entry })
  t.same(await it.balancer.driver.observe(), [])
  t.same(await it.client.tell('ask', { address: VIP, port: 80 }), ['ECONNREFUSED'], 'traffic has stopped')
})

t.test('UDP: one flow stays at one backend', async (t) => {
  const entry = vip({ protocol: 'udp', backends: three })
  await it.put(entry)
  const answers = await it.client.tell('ask', { protocol: 'udp', address: VIP, port: 80, count: 30 })
  t.same(tallied(answers), { b1: 10, b2: 10, b3: 10 })
  t.ok(answers.every((answer) => answer.includes(`from ${VIP}:80`)))
  const flow = await it.client.tell('flow', { address: VIP, port: 80, localPort: 5000, count: 5 })
  t.equal(Object.keys(tallied(flow)).length, 1, flow.join())
  await it.apply({ before: entry })
})

t.same(it.problems, [])
