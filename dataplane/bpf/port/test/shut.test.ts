/** Ports that nobody guards carry nothing, and say why. Programs hang by clsact here, which somebody else can be in the way of. */
import '../../test/clsact-lane.ts'
import '../../../../test/inside.ts'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { frame, type Tap, tap } from '../../../../test/frames.ts'
import { requireFeatures, whyLacking } from '../../../../test/kernel-features.ts'
import { netns, requireRoot, type Scope } from '../../../../test/netns.ts'
import { bpffs } from '../../test/support.ts'
import { binding, net } from '../entries.ts'
import { portMaps } from '../maps.ts'
import { shutPorts } from '../shut.ts'
import { bridged, opened, run, sockets } from './rig.ts'

requireRoot(t)

const NET = net('networks', { net: 1, cidr: '10.0.0.0/24', hostGateway: false })
const tc = (line: string) =>
  execFileSync('tc', line.split(' '), { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })

/** Whether a frame of one guest comes out at another. A frame that has passed is there once a later one by `fence` is. */
async function passes(from: Tap, to: Tap, [first, last]: readonly [Tap, Tap]): Promise<boolean> {
  const [one, other] = [randomBytes(8), randomBytes(8)]
  to.seen()
  from.send(frame({ from: from.mac }, one))
  first.send(frame({ from: first.mac }, other))
  const signal = AbortSignal.timeout(10_000)
  while (!last.seen().some((it) => it.includes(other))) {
    signal.throwIfAborted()
    await new Promise(setImmediate)
  }
  return to.seen().some((it) => it.includes(one))
}

/** Another bridge with two guests, which is none of ours. */
function beside(t: Scope): readonly [Tap, Tap] {
  run('link add br-other type bridge mcast_snooping 0')
  run('link set br-other up')
  t.teardown(() => void run('link del br-other'))
  const guest = (name: string) => {
    const ns = netns(t, name)
    run(`link add name ${name} type veth peer name eth0 netns ${ns.name}`)
    run(`link set dev ${name} up master br-other`)
    ns.run('ip', 'link', 'set', 'eth0', 'up')
    return tap(t, ns)
  }
  return [guest('x'), guest('y')]
}

t.test('a port that cannot be guarded carries nothing until it can be, and nobody is attached to it', async (t) => {
  const { a, b, c, d } = bridged(t, ['a', 'b', 'c', 'd'])
  if (!a || !b || !c || !d) throw new Error('no guests')
  const fence = [c.tap, d.tap] as const
  for (const name of ['a', 'b']) tc(`qdisc add dev ${name} ingress`)
  t.ok(await passes(a.tap, b.tap, fence), 'without an agent the bridge is one as any')
  const { driver, ports, problems, close } = await opened(t, bpffs(t))
  t.teardown(close)
  await driver.observe([])
  t.notOk(await passes(a.tap, b.tap, fence), 'from one that is not guarded to another')
  t.notOk(await passes(a.tap, d.tap, fence), 'to one that is')
  t.notOk(await passes(c.tap, a.tap, fence), 'and from there')
  t.same(
    ports
      .list()
      .map(({ name }) => name)
      .sort(),
    ['br-work', 'c', 'd'],
  )
  const why = /^port a of br-work carries no traffic, because it cannot be guarded: .* has an ingress qdisc/
  t.match(driver.pending?.(), [{ key: 'port/a', reason: why }, { key: 'port/b' }])
  t.match(problems, [{ message: why }, {}])
  await driver.observe([])
  t.equal(problems.length, 2, 'the log is told once')
  const bound = binding('networks', { net: 1, address: '10.0.0.1', mac: a.tap.mac, routed: [], port: 'a' })
  await t.rejects(driver.apply([{ after: NET }, { after: bound }]), { name: 'KernelRefusal', message: why })
  t.same(await driver.observe([]), [], 'nothing of the change is in force')

  for (const name of ['a', 'b']) tc(`qdisc del dev ${name} ingress`)
  await driver.observe([])
  t.same(driver.pending?.(), [])
  t.ok(await passes(a.tap, b.tap, fence))
  await driver.apply([{ after: NET }, { after: bound }])
})

t.test('while br-work itself cannot be guarded no port carries anything', async (t) => {
  const { a, b } = bridged(t, ['a', 'b'])
  if (!a || !b) throw new Error('no guests')
  tc('qdisc add dev br-work ingress')
  const other = beside(t)
  const { driver, written, programs, close } = await opened(t, bpffs(t))
  t.teardown(close)
  await driver.observe([])
  t.notOk(await passes(a.tap, b.tap, other))
  t.match(driver.pending?.(), [{ reason: /^no port of br-work carries traffic, because br-work cannot be guarded: / }])
  await driver.observe([])
  t.notOk(
    written.some((it) => /set guarded .*elements/.test(it)),
    'also not for as long as it looks at them',
  )
  const leg = () => portMaps(programs.object).hosts.get(0)
  t.match(leg(), { ifindex: 0 }, 'nor does a program redirect to it')
  tc('qdisc del dev br-work ingress')
  await driver.observe([])
  t.ok(await passes(a.tap, b.tap, other))
  t.match(leg(), { ifindex: Number(run('-o link show dev br-work').split(':')[0]) })
})

t.test('a port that can neither be guarded nor be written by nft is shut as any', async (t) => {
  const { a, b, c, d } = bridged(t, ['a', 'b', 'c', 'd'])
  if (!a || !b || !c || !d) throw new Error('no guests')
  for (const [name, other] of [
    ['a', 'a+1'],
    ['b', 'b*'],
  ] as const) {
    tc(`qdisc add dev ${name} ingress`)
    run(`link set dev ${name} down`)
    run(`link set dev ${name} name ${other}`)
    run(`link set dev ${other} up`)
  }
  const { driver, written, close } = await opened(t, bpffs(t))
  t.teardown(close)
  await driver.observe([])
  t.notOk(await passes(a.tap, b.tap, [c.tap, d.tap]))
  const transactions = written.length
  await driver.observe([])
  t.equal(written.length, transactions, 'what stays is not written again')
})

t.test('frames ask for shut ports only while there are any', async (t) => {
  const { a, b, c, d } = bridged(t, ['a', 'b', 'c', 'd'])
  if (!a || !b || !c || !d) throw new Error('no guests')
  const { driver, problems, close } = await opened(t, bpffs(t))
  t.teardown(close)
  const asks = () => execFileSync('nft', ['list', 'table', 'bridge', 'stratum'], { encoding: 'utf8' }).includes('@shut')
  await driver.observe([])
  t.notOk(asks())
  run('link set dev a nomaster')
  await driver.observe([])
  tc('qdisc add dev a ingress')
  run('link set dev a master br-work')
  await driver.observe([])
  t.equal(asks(), whyLacking('bridge_meta') !== undefined, 'where the kernel does not tell which bridge a port is on')
  t.notOk(await passes(a.tap, b.tap, [c.tap, d.tap]))
  run('link set dev a nomaster')
  await driver.observe([])
  t.notOk(asks())
  t.same(await driver.observe([]), [], 'that is no drift')
  t.equal(problems.length, 1)
})

t.test('a program that somebody takes off is put back at once, and told', async (t) => {
  const { a, b } = bridged(t, ['a', 'b'])
  if (!a || !b) throw new Error('no guests')
  const { driver, links, close } = await opened(t, bpffs(t))
  t.teardown(close)
  await driver.observe([])
  const signal = AbortSignal.timeout(10_000)
  for (const line of ['filter del dev a ingress pref 1', 'qdisc del dev a clsact']) {
    t.notOk(await driver.changedByOthers?.())
    tc(line)
    while (!(await driver.changedByOthers?.())) {
      signal.throwIfAborted()
      await new Promise(setImmediate)
    }
    t.match(await driver.observe([]), [{ kind: 'stray', key: 'l2/stray/unguarded/port/a' }])
    t.equal((await links.present()).places.length, 6, line)
  }
  t.ok(await passes(a.tap, b.tap, [b.tap, a.tap]))
})

t.test('a node that cannot guard ports shuts them, but for those that an earlier agent has guarded', async (t) => {
  const root = bpffs(t)
  const { a, b, c, d } = bridged(t, ['a', 'b', 'c', 'd'])
  if (!a || !b || !c || !d) throw new Error('no guests')
  const other = beside(t)
  const shut = async () => {
    const { close, written: _, ...asked } = await sockets()
    const driver = shutPorts({ root, ...asked, why: 'the kernel has no programs', onProblem: () => {} })
    await driver.observe()
    return {
      driver,
      async close() {
        await driver.close()
        await close()
      },
    }
  }
  const first = await shut()
  t.notOk(await passes(a.tap, b.tap, other))
  run('address add 10.9.0.254/24 dev br-work')
  a.ns.run('ip', 'address', 'add', '10.9.0.1/24', 'dev', 'eth0')
  const answered = () => /([0-9]+) received/.exec(a.ns.run('sh', '-c', 'ping -n -q -c 1 -W 1 10.9.0.254 || true'))?.[1]
  t.equal(answered(), '0', 'nor with the node')
  t.match(first.driver.pending?.(), { length: 5 })
  t.match(first.driver.pending?.()[1]?.reason, /^port . of br-work carries no traffic, .*: the kernel has no programs$/)
  await first.close()
  t.notOk(await passes(a.tap, b.tap, other), 'also while no agent runs')

  for (const name of ['c', 'd']) run(`link set dev ${name} nomaster`)
  const able = await opened(t, root)
  await able.driver.observe([])
  t.ok(await passes(a.tap, b.tap, other), 'an agent that can guard them opens them')
  await able.close()
  for (const name of ['c', 'd']) run(`link set dev ${name} master br-work`)
  const second = await shut()
  t.ok(await passes(a.tap, b.tap, other), 'what was guarded goes on')
  t.notOk(await passes(c.tap, d.tap, other))
  t.notOk(await passes(c.tap, a.tap, other))
  t.match(second.driver.pending?.(), [{ key: 'port/c' }, { key: 'port/d' }])
  await second.close()
})

t.test('what joins br-work while no agent runs carries nothing', async (t) => {
  if (!requireFeatures(t, 'bridge_meta')) return
  const { a, b } = bridged(t, ['a', 'b'])
  if (!a || !b) throw new Error('no guests')
  const other = beside(t)
  for (const name of ['a', 'b']) run(`link set dev ${name} nomaster`)
  const { driver, close } = await opened(t, bpffs(t))
  await driver.observe([])
  await close()
  for (const name of ['a', 'b']) run(`link set dev ${name} master br-work`)
  t.notOk(await passes(a.tap, b.tap, other))
})
