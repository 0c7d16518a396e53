/** What others do to ports, and what a killed agent leaves half done: no port is taken for guarded that is not. */
import '../../../../test/inside.ts'
import { execFileSync } from 'node:child_process'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { arrives, frame, type Tap, tap } from '../../../../test/frames.ts'
import { netns, requireRoot, type Scope } from '../../../../test/netns.ts'
import { attachingHere, bpffs } from '../../test/support.ts'
import { binding, net } from '../entries.ts'
import { portKind } from '../links.ts'
import { bridged, opened, run } from './rig.ts'

requireRoot(t)

const NET = net('networks', { net: 1, cidr: '10.0.0.0/24', hostGateway: false })
const indexOf = (name: string): number => Number(run(`-o link show dev ${name}`).split(':')[0])
const nft = (line: string) => execFileSync('nft', line.split(' '), { stdio: ['ignore', 'ignore', 'pipe'] })

t.test('a program of another role that a killed agent has left goes, and the port carries again', async (t) => {
  const root = bpffs(t)
  const { a, b } = bridged(t, ['a', 'b'])
  if (!a || !b) throw new Error('no guests')
  const first = await opened(t, root)
  await first.driver.observe([])
  t.ok(await arrives(a.tap, b.tap, {}))
  const attaching = await attachingHere(t)
  const { dir, set, object } = first.programs
  const place = { what: 'uplink', ifindex: indexOf('a'), direction: 'egress' } as const
  await attaching.of(portKind(dir, set)).attach(place, object.program('hook_uplink_out'))
  await first.close()

  const second = await opened(t, root)
  t.teardown(second.close)
  await second.driver.observe([])
  const { places } = await second.links.present()
  t.same(
    places
      .filter(({ ifindex }) => ifindex === place.ifindex)
      .map(({ what, direction }) => `${what} ${direction}`)
      .sort(),
    ['workload egress', 'workload ingress'],
  )
  t.ok(await arrives(b.tap, a.tap, {}))
  t.ok(await arrives(a.tap, b.tap, {}))
})

/** Puts another guest on br-work, whose port has the ifindex that the port of `a` had. */
function replaced(t: Scope, name: string, ifindex: number): Tap {
  const ns = netns(t, 'next')
  const lines = [
    ...(run('-o link show').includes(': a@') ? ['link del dev a'] : []),
    `link add name ${name} index ${ifindex} type veth peer name eth0 netns ${ns.name}`,
    `link set dev ${name} up master br-work`,
  ]
  execFileSync('ip', ['-batch', '-'], { input: `${lines.join('\n')}\n` })
  ns.run('ip', 'link', 'set', 'eth0', 'up')
  return tap(t, ns)
}

for (const [agent, name, seen] of [
  ['alive', 'a', ''],
  ['alive', 'z', ''],
  ['alive', 'z', ', long gone,'],
  ['away', 'z', ''],
  ['away', 'z', ', long gone,'],
] as const)
  t.test(`agent ${agent}: port ${name} with the ifindex of another device${seen} is in no net of that`, async (t) => {
    const root = bpffs(t)
    const { a, b, c } = bridged(t, ['a', 'b', 'c'])
    if (!a || !b || !c) throw new Error('no guests')
    const one = binding('networks', { net: 1, address: '10.0.0.1', mac: a.tap.mac, routed: [], claims: 'first' })
    const two = binding('networks', { net: 1, address: '10.0.0.2', mac: b.tap.mac, routed: [], port: 'b' })
    const before = await opened(t, root)
    await before.driver.observe([])
    await before.driver.apply([{ after: NET }, { after: one }, { after: two }])
    t.ok(await arrives(a.tap, b.tap, {}))
    t.equal(before.ports.list().find((it) => it.name === 'a')?.net, 1)
    const ifindex = indexOf('a')
    if (seen) {
      run('link del dev a')
      await before.ports.settled()
    }

    if (agent === 'away') await before.close()
    const other = replaced(t, name, ifindex)
    const { driver, ports, close } = agent === 'away' ? await opened(t, root) : before
    t.teardown(close)
    await driver.observe([NET, one, two])
    t.match(
      ports.list().find((it) => it.ifindex === ifindex),
      { name, net: 0 },
    )
    t.equal(ports.seenAt(1, a.tap.mac), undefined, 'who was there is nowhere')
    b.tap.send(frame({ from: b.tap.mac }, Buffer.from('for the network only')))
    t.ok(await arrives(c.tap, other, {}), 'it is an open port')
    t.notOk(other.seen().some((it) => it.includes('for the network only')))
  })

t.test('a first frame is told with the name of its port while the agent is still at guarding it', async (t) => {
  const { a, b } = bridged(t, ['a', 'b'])
  if (!a || !b) throw new Error('no guests')
  const claims: string[] = []
  let during = async (): Promise<void> => {}
  const { driver, ports, close } = await opened(t, bpffs(t), () => during())
  t.teardown(close)
  t.teardown(ports.onClaim(({ port }) => claims.push(port)))
  run('link set dev b nomaster')
  await driver.observe([])
  const one = binding('networks', { net: 1, address: '10.0.0.2', mac: b.tap.mac, routed: [], claims: 'first' })
  await driver.apply([{ after: NET }, { after: one }])
  during = async () => {
    if (!ports.list().some(({ name }) => name === 'b')) return
    for (; claims.length === 0; await wait(5)) b.tap.send(frame({ from: b.tap.mac }, Buffer.alloc(46)))
  }
  run('link set dev b master br-work')
  await ports.settled()
  t.same(claims, ['b'])
})

t.test('a port whose name nft cannot write carries nothing, and says so', async (t) => {
  const { a, b } = bridged(t, ['a', 'b'])
  if (!a || !b) throw new Error('no guests')
  const { driver, ports, problems, close } = await opened(t, bpffs(t))
  t.teardown(close)
  await driver.observe([])
  t.ok(await arrives(a.tap, b.tap, {}))
  run('link set dev a down')
  run('link set dev a name a+1')
  run('link set dev a+1 up')
  await driver.observe([])
  const reason = /^port a\+1 of br-work carries no traffic, because .*: nft cannot write its name; rename it/
  t.match(driver.pending?.(), [{ key: 'port/a+1', reason }])
  t.notOk(ports.list().some(({ name }) => name === 'a+1'))
  const bound = binding('networks', { net: 1, address: '10.0.0.1', mac: a.tap.mac, routed: [], port: 'a+1' })
  await t.rejects(driver.apply([{ after: NET }, { after: bound }]), { name: 'KernelRefusal', message: reason })
  run('link set dev a+1 down')
  run('link set dev a+1 name a')
  run('link set dev a up')
  await driver.observe([])
  t.same(driver.pending?.(), [])
  t.ok(await arrives(a.tap, b.tap, {}))
  t.equal(problems.length, 1)
})

t.test('a gate that others have opened is shut again, and told', async (t) => {
  const { a } = bridged(t, ['a', 'b'])
  if (!a) throw new Error('no guests')
  const { driver, problems, close } = await opened(t, bpffs(t))
  t.teardown(close)
  await driver.observe([])
  const changes = [
    'insert rule bridge stratum forward accept',
    'add chain bridge stratum other { type filter hook prerouting priority -400; policy drop; }',
    'add rule bridge stratum forward counter',
    'flush chain bridge stratum output',
    'add table bridge stratum { flags dormant; }',
    'delete table bridge stratum',
  ]
  for (const line of changes) {
    t.same(await driver.observe([]), [])
    nft(line)
    t.match(await driver.observe([]), [{ kind: 'stray', key: 'l2/stray/unguarded/gate' }], line)
  }
  t.same(await driver.observe([]), [])
  t.same(problems, [])
})
