import '../../../../test/inside.ts'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { requireRoot } from '../../../../test/netns.ts'
import { BPF_LAYOUT, LB_PLACES, LB_SHARERS } from '../../../numbers.ts'
import { KernelRefusal } from '../../../plane.ts'
import { bytes, u32 } from '../../codec.ts'
import { openMap } from '../../map.ts'
import { openObject } from '../../object.ts'
import { ethernet, ipv4, PROTOCOL, TYPE } from '../../port/test/packet.ts'
import { ifindex, objectPath, run } from '../../test/support.ts'
import { runProgram } from '../../test_run.ts'
import type { VipEntry } from '../entries.ts'
import { BALANCER_OBJECT, balancerAttached, pinsOf, removeBalancer } from '../open.ts'
import { backend, lab, tallied, VIP, vip } from './lab.ts'
import { segment } from './wire.ts'

requireRoot(t)

const it = await lab(t, 1)
await it.backends[0]?.tell('listen', { protocol: 'tcp', port: 8080, name: 'b1' })
const { driver } = it.balancer
const dir = join(it.root, 'lb', `v${BPF_LAYOUT}`)
const attached = () =>
  readdirSync(join(dir, 'links'))
    .map(Number)
    .sort((a, b) => a - b)
/** Entries of the maps that the agent fills. */
async function rows(): Promise<number[]> {
  const counts: number[] = []
  for (const [name, key, value] of [
    ['lb_vips4', 8, 8],
    ['lb_served4', 8, 4 + 8 * LB_SHARERS],
    ['lb_labels', 4, 72],
  ] as const) {
    const map = openMap(join(dir, name), bytes(key), bytes(value))
    counts.push((await map.lookupBatch()).length)
    map.close()
  }
  return counts
}

t.test('the programs are on the devices only while there is a virtual address', async (t) => {
  t.same([attached(), await rows()], [[], [0, 0, 0]])
  const entry = vip({ backends: [backend(1)] })
  await it.put(entry)
  const devices = ['br-work', 'up0'].map(ifindex).sort((a, b) => a - b)
  t.same([attached(), await rows()], [devices, [1, 1, 2]])
  run('ip', 'link', 'add', 'later', 'type', 'bridge')
  await driver.observe()
  t.same(
    attached(),
    [...devices, ifindex('later')].sort((a, b) => a - b),
    'a device that comes later',
  )
  run('ip', 'link', 'del', 'later')
  await driver.observe()
  t.same(attached(), devices)
  await it.apply({ before: entry })
  t.same([attached(), await rows(), readdirSync(join(dir, 'sockets'))], [[], [0, 0, 0], []])
})

t.test('a link that somebody takes off is put back', async (t) => {
  const entry = vip({ backends: [backend(1)] })
  await it.put(entry)
  const { openLink } = await import('../../link.ts')
  await openLink(join(dir, 'links', String(ifindex('up0')))).detach()
  t.same(await it.client.tell('ask', { address: VIP, port: 80 }), ['ECONNREFUSED'])
  await driver.observe()
  t.match(await it.client.tell('ask', { address: VIP, port: 80 }), [/^b1/])
  await it.apply({ before: entry })
})

t.test('a change that cannot be as a whole changes nothing', async (t) => {
  const first = vip({ backends: [backend(1)] })
  await it.put(first)
  const before = [await driver.observe(), await rows()]
  const many = Array.from({ length: LB_PLACES + 1 }, (_, n) => backend(1, { id: `b${n}`, port: 1000 + n }))
  const good = vip({ id: 'good', key: 'lb/vip/good', port: 81, backends: [backend(1)] })
  const bad = vip({ id: 'bad', key: 'lb/vip/bad', port: 82, backends: many })
  const less: VipEntry = { ...first, backends: [] }
  await t.rejects(it.apply({ after: good }, { before: first, after: less }, { after: bad }), KernelRefusal)
  t.same([await driver.observe(), await rows()], before)
  t.match(await it.client.tell('ask', { address: VIP, port: 80 }), [/^b1/])

  const sharing = Array.from({ length: LB_SHARERS }, (_, n) => {
    return { after: vip({ id: `s${n}`, key: `lb/vip/s${n}`, port: 100 + n, backends: [backend(1)] }) }
  })
  await t.rejects(it.apply(...sharing), /serves 8 virtual addresses already: give it another port/)
  t.same([await driver.observe(), await rows()], before)
  await it.apply({ before: first })
})

t.test('each algorithm spreads a hundred thousand clients by weight, none gets what weighs nothing', async (t) => {
  const object = openObject(BALANCER_OBJECT, pinsOf(it.root))
  await object.load()
  const walker = openObject(objectPath('walk'))
  await walker.load()
  walker.map('walked', u32, u32).set(0, object.program('lb_in').fd)
  const mac = /link\/ether (\S+)/.exec(run('ip', 'link', 'show', 'dev', 'up0'))?.[1] ?? ''
  const ctx = Buffer.alloc(192)
  ctx.writeUInt32LE(ifindex('up0'), 40)
  const backends = [1, 2, 3, 4].map((n) => backend(n, { weight: n - 1 }))
  const clients = 1 << 17
  for (const algorithm of [
    'round-robin',
    'weighted',
    'least-conn',
    'source-hash',
    'consistent-hash',
    'maglev',
  ] as const) {
    const entry = vip({ algorithm, backends })
    await it.put(entry)
    // An acknowledgement is what makes a connection of an opening, and least-conn goes by connections.
    const packet = ipv4('198.18.0.1', VIP, PROTOCOL.tcp, segment('tcp', 1, 80, 0x10))
    const walk = Buffer.concat([ethernet(mac, '02:00:00:00:00:99', TYPE.ipv4, packet)], 88)
    for (const [n, value] of [0, clients - 1, 26, 34].entries()) walk.writeUInt32LE(value, 64 + n * 4)
    walker.map('walks', u32, bytes(88)).set(0, walk)
    await runProgram(walker.program('walk').fd, { data: walk.subarray(0, 64), ctx, repeat: clients })
    const counts = backends.map(({ id }) => it.balancer.balancer.activeConnections('web', id))
    const weights = algorithm === 'round-robin' || algorithm === 'least-conn' ? [0, 1, 1, 1] : [0, 1, 2, 3]
    const total = weights.reduce((sum, weight) => sum + weight, 0)
    t.equal(
      counts.reduce((sum, count) => sum + count, 0),
      clients,
    )
    t.equal(counts[0], 0)
    // Few sources stand for all of those clients: 32 of them.
    if (algorithm !== 'source-hash') {
      for (const [n, count] of counts.entries()) {
        const share = (clients * (weights[n] ?? 0)) / total
        t.ok(Math.abs(count - share) <= clients * 0.01, `${algorithm}: ${count} for ${share}`)
      }
    } else
      t.ok(
        counts.every((count) => count % 4096 === 0),
        'a client is at one backend by all of its ports',
      )
    await it.apply({ before: entry })
  }
  walker.close()
  object.close()
})

t.test('what is pinned can be taken off as a whole', async (t) => {
  const entry = vip({ backends: [backend(1)] })
  await it.put(entry)
  t.same(tallied(await it.client.tell('ask', { address: VIP, port: 80 })), { b1: 1 })
  await it.balancer.driver.close()
  t.ok(balancerAttached(it.root))
  t.ok(await removeBalancer(it.root))
  t.notOk(existsSync(join(it.root, 'lb')))
  t.notOk(await removeBalancer(it.root))
  t.same(await it.client.tell('ask', { address: VIP, port: 80 }), ['ECONNREFUSED'])
  await it.reopen().catch(() => {})
  t.same(await it.balancer.driver.observe(), [])
})

t.same(it.problems, [])
