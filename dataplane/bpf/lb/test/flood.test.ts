import '../../../../test/inside.ts'
import t from 'tap'
import { requireRoot } from '../../../../test/netns.ts'
import { LB_FLOWS4 } from '../../../numbers.ts'
import { bytes, u32 } from '../../codec.ts'
import { openObject } from '../../object.ts'
import { ethernet, ipv4, PROTOCOL, TYPE } from '../../port/test/packet.ts'
import { ifindex, objectPath, run } from '../../test/support.ts'
import { runProgram } from '../../test_run.ts'
import { BALANCER_OBJECT, pinsOf } from '../open.ts'
import { backend, CLIENT, lab, VIP, vip } from './lab.ts'
import { segment } from './wire.ts'

requireRoot(t)

const it = await lab(t, 2)
for (const [n, machine] of it.backends.entries()) {
  await machine.tell('listen', { protocol: 'tcp', port: 8080, name: `b${n + 1}` })
}
const at = { address: VIP, port: 80 }
/** In struct walk of walk.bpf.c, behind the frame: slot, mask of the clients, where address and port stand. */
const WALK = [0, (1 << 24) - 1, 26, 34]

t.test('a flood of openings, four times what the table holds: connections stay, and new ones are served', async (t) => {
  const entry = vip({ backends: [backend(1), backend(2)] })
  await it.put(entry)
  const held = []
  for (let n = 0; n < 20; n++) held.push(await it.client.tell('open', at))
  const object = openObject(BALANCER_OBJECT, pinsOf(it.root))
  await object.load()
  const walker = openObject(objectPath('walk'))
  await walker.load()
  walker.map('walked', u32, u32).set(0, object.program('lb_in').fd)
  const mac = /link\/ether (\S+)/.exec(run('ip', 'link', 'show', 'dev', 'up0'))?.[1] ?? ''
  const frame = ethernet(
    mac,
    '02:00:00:00:00:99',
    TYPE.ipv4,
    ipv4('198.18.0.1', VIP, PROTOCOL.tcp, segment('tcp', 1, 80, 2)),
  )
  const walk = Buffer.concat([frame], 88)
  for (const [n, value] of WALK.entries()) walk.writeUInt32LE(value, 64 + n * 4)
  walker.map('walks', u32, bytes(88)).set(0, walk)
  const ctx = Buffer.alloc(192)
  ctx.writeUInt32LE(ifindex('up0'), 40)
  const data = Buffer.concat([frame], 64)
  for (let n = 0; n < 8; n++) {
    await runProgram(walker.program('walk').fd, { data, ctx, repeat: LB_FLOWS4 / 2 })
    // As connections are that somebody uses.
    for (const { handle } of held) t.equal(await it.client.tell('say', { handle, text: 'flooded' }), 'same')
  }
  const answers = await it.client.tell('ask', { ...at, count: 40 })
  t.ok(
    answers.every((answer) => answer.endsWith(` ${CLIENT}`)),
    answers.join(),
  )
  const active = () => [1, 2].map((n) => it.balancer.balancer.activeConnections('web', `b${n}`))
  t.same(active(), [10, 10])
  await it.balancer.sweep()
  await it.balancer.sweep()
  t.same(active(), [10, 10], 'openings are not connections')
  for (const { handle } of held) await it.client.tell('close', { handle, how: 'fin' })
  await it.apply({ before: entry })
  walker.close()
  object.close()
})
