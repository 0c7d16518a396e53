import '../../../../test/inside.ts'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { requireRoot } from '../../../../test/netns.ts'
import { KernelError } from '../../../libc.ts'
import type { Link as Device } from '../../../netlink/link.ts'
import { BPF_LAYOUT, LB_PLACES, LB_SHARERS } from '../../../numbers.ts'
import { KernelRefusal } from '../../../plane.ts'
import { bytes } from '../../codec.ts'
import { openMap } from '../../map.ts'
import { openObject } from '../../object.ts'
import { attachingHere, ifindex, run } from '../../test/support.ts'
import { standing as standingIn } from '../adopt.ts'
import type { VipEntry } from '../entries.ts'
import { BalancerLinks, balancerKind } from '../links.ts'
import { type BalancerMaps, balancerMaps } from '../maps.ts'
import { BALANCER_OBJECT, balancerAttached, pinsOf, removeBalancer } from '../open.ts'
import { VipTable } from '../table.ts'
import { backend, lab, tallied, VIP, vip } from './lab.ts'
import { ACK, SYN, walker } from './walker.ts'

requireRoot(t)

/** asm-generic/errno-base.h */
const E2BIG = 7

const it = await lab(t, 1)
await it.backends[0]?.tell('listen', { protocol: 'tcp', port: 8080, name: 'b1' })
const observe = () => it.balancer.driver.observe()
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
  t.notOk(existsSync(dir), 'nothing is loaded before there is one')
  const entry = vip({ backends: [backend(1)] })
  await it.put(entry)
  const devices = ['br-work', 'up0'].map(ifindex).sort((a, b) => a - b)
  t.same([attached(), await rows()], [devices, [1, 1, 2]])
  run('ip', 'link', 'add', 'later', 'type', 'bridge')
  await observe()
  t.same(
    attached(),
    [...devices, ifindex('later')].sort((a, b) => a - b),
    'a device that comes later',
  )
  run('ip', 'link', 'del', 'later')
  if (existsSync('/dev/net/tun')) {
    run('ip', 'tuntap', 'add', 'dev', 'other', 'mode', 'tun')
    t.teardown(() => run('ip', 'link', 'del', 'other'))
    run('ip', 'link', 'set', 'other', 'up')
  }
  await observe()
  t.same(attached(), devices)
  await it.apply({ before: entry })
  t.same([attached(), await rows(), readdirSync(join(dir, 'sockets'))], [[], [0, 0, 0], []])
  await it.balancer.rest()
  await it.put(entry)
  await it.balancer.rest()
  t.ok(existsSync(dir), 'not while there is one')
  await it.apply({ before: entry })
  await it.balancer.rest()
  await it.balancer.rest()
  t.notOk(existsSync(dir), 'given up when there was none for a while')
  const undo = await it.put(entry)
  await undo()
  t.same(attached(), [])
})

t.test('nothing is given up under the hands of a change, or before the first comparison', async (t) => {
  const entry = vip({ backends: [backend(1)] })
  for (let n = 0; n < 5; n++) {
    let over = false
    const put = it.put(entry).finally(() => {
      over = true
    })
    while (!over) {
      await it.balancer.rest()
      await new Promise(setImmediate)
    }
    await put
    t.same(attached().includes(ifindex('up0')), true)
    await it.apply({ before: entry })
  }
  await it.reopen()
  const restThrice = async () => {
    for (let n = 0; n < 3; n++) await it.balancer.rest()
  }
  await restThrice()
  t.ok(existsSync(dir), 'an older layout may be what serves')
  await observe()
  await restThrice()
  t.notOk(existsSync(dir))
})

t.test('where there is no room for the role of a device, the program comes there nevertheless', async (t) => {
  const object = openObject(BALANCER_OBJECT, pinsOf(it.root))
  await object.load()
  const roles = new Map([[ifindex('up0'), 1]])
  const full = {
    get: (index: number) => roles.get(index),
    delete: (index: number) => roles.delete(index),
    set() {
      throw new KernelError(E2BIG, 'no room')
    },
  } as unknown as BalancerMaps['devices']
  const problems: unknown[] = []
  const attachments = (await attachingHere(t)).of(balancerKind(join(it.root, 'try')))
  const links = new BalancerLinks(attachments, object.program('lb_in'), full, (error) => problems.push(error))
  const devices = ['br-work', 'up0'].map((name) => ({ index: ifindex(name), name }) as Device)
  for (let n = 0; n < 2; n++) await links.bring(devices, true)
  t.match(problems, [{ code: 'E2BIG' }], 'told once')
  t.equal(problems.length, 1)
  t.same([...roles], [], 'what has no role takes no room')
  t.same(readdirSync(join(it.root, 'try', 'links')).length, 2)
  await links.bring([], true)
  rmSync(join(it.root, 'try'), { recursive: true })
  object.close()
})

t.test('a link that somebody takes off is put back', async (t) => {
  const entry = vip({ backends: [backend(1)] })
  await it.put(entry)
  const { openLink } = await import('../../link.ts')
  await openLink(join(dir, 'links', String(ifindex('up0')))).detach()
  t.same(await it.client.tell('ask', { address: VIP, port: 80 }), ['ECONNREFUSED'])
  await observe()
  t.match(await it.client.tell('ask', { address: VIP, port: 80 }), [/^b1/])
  await it.apply({ before: entry })
})

t.test('a change that cannot be as a whole changes nothing', async (t) => {
  const first = vip({ backends: [backend(1)] })
  await it.put(first)
  const before = [await observe(), await rows()]
  const many = Array.from({ length: LB_PLACES + 1 }, (_, n) => backend(1, { id: `b${n}`, port: 1000 + n }))
  const good = vip({ id: 'good', key: 'lb/vip/good', port: 81, backends: [backend(1)] })
  const bad = vip({ id: 'bad', key: 'lb/vip/bad', port: 82, backends: many })
  const less: VipEntry = { ...first, backends: [] }
  await t.rejects(it.apply({ after: good }, { before: first, after: less }, { after: bad }), KernelRefusal)
  t.same([await observe(), await rows()], before)
  t.match(await it.client.tell('ask', { address: VIP, port: 80 }), [/^b1/])

  const sharing = Array.from({ length: LB_SHARERS }, (_, n) => {
    return { after: vip({ id: `s${n}`, key: `lb/vip/s${n}`, port: 100 + n, backends: [backend(1)] }) }
  })
  await t.rejects(it.apply(...sharing), /serves 8 virtual addresses already: give it another port/)
  t.same([await observe(), await rows()], before)
  await it.apply({ before: first })
})

t.test('a change that fails in the middle leaves nothing behind', async (t) => {
  const first = vip({ backends: [backend(1)] })
  await it.put(first)
  const object = openObject(BALANCER_OBJECT, pinsOf(it.root))
  await object.load()
  const maps = balancerMaps(object)
  const table = new VipTable(maps)
  for (const standing of await standingIn(maps)) table.adopt(standing)
  const before = [await observe(), await rows()]
  const { updateBatch } = maps.rings
  maps.rings.updateBatch = () => Promise.reject(new KernelRefusal('no memory'))
  const other = vip({ id: 'other', key: 'lb/vip/other', port: 0, backends: [backend(1, { port: 0 })] })
  const more = { ...first, backends: [backend(1), backend(2)] }
  for (const entry of [other, more]) {
    await t.rejects(table.put(entry), { message: 'no memory' })
    t.same([await observe(), await rows()], before)
  }
  maps.rings.updateBatch = updateBatch
  await table.put(more)
  t.same(await observe(), [more])
  await table.put(first)
  maps.close()
  object.close()
  t.same([await observe(), await rows()], before)
  t.match(await it.client.tell('ask', { address: VIP, port: 80 }), [/^b1/])
  await it.apply({ before: first })
})

t.test('each algorithm spreads a hundred thousand clients by weight, none gets what weighs nothing', async (t) => {
  const walking = await walker(it.root, 'up0')
  const clients = 1 << 17
  // Least-conn goes by connections, so it must see what has become of the openings before.
  const chunk = 512
  for (const algorithm of [
    'round-robin',
    'weighted',
    'least-conn',
    'source-hash',
    'consistent-hash',
    'maglev',
  ] as const) {
    // No answer need be seen: who goes on has a connection.
    const entry = vip({
      algorithm,
      dsr: true,
      backends: [1, 2, 3, 4].map((n) => backend(n, { weight: n - 1, port: 80 })),
    })
    await it.put(entry)
    for (let turn = 0; turn < clients; turn += chunk) {
      for (const flags of [SYN, ACK]) await walking.send({ to: VIP, flags, clients, turn, count: chunk })
    }
    const counts = entry.backends.map(({ id }) => it.balancer.balancer.activeConnections('web', id))
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
  walking.close()
})

t.test('what is pinned can be taken off as a whole', async (t) => {
  const entry = vip({ backends: [backend(1)] })
  await it.put(entry)
  t.same(tallied(await it.client.tell('ask', { address: VIP, port: 80 })), { b1: 1 })
  await it.balancer.driver.close()
  t.ok(await balancerAttached(it.root))
  t.ok(await removeBalancer(it.root))
  t.notOk(existsSync(join(it.root, 'lb')))
  t.notOk(await removeBalancer(it.root))
  t.same(await it.client.tell('ask', { address: VIP, port: 80 }), ['ECONNREFUSED'])
  await it.reopen().catch(() => {})
  t.same(await it.balancer.driver.observe(), [])
})

t.same(it.problems, [])
