/** What holds for a change as a whole, over the real kernel in a network namespace of this file. */
import t from 'tap'
import { here } from '../../../test/inside.ts'
import { requireRoot } from '../../../test/netns.ts'
import type { Passage } from '../../entry.ts'
import { address, bridge, link, member, type NetlinkEntry, neighbour, policy, route } from '../entries.ts'
import {
  added,
  change,
  changed,
  differing,
  dump,
  ip,
  openDriver,
  quiet,
  removed,
  riggedSocket,
  site,
} from './driver-rig.ts'

if (requireRoot(t) && here !== undefined) all()

/** Something of every kind, what stands before, and a change that makes, changes and removes of every kind. */
function scene(): { before: NetlinkEntry[]; diff: Passage[]; after: NetlinkEntry[] } {
  const kept = [
    bridge('x', 'br1', { mac: '02:00:00:00:00:01', mtu: 1500 }),
    link('x', { name: 'st1', device: { type: 'veth', peer: 'st1p' }, mac: '02:00:00:00:00:02' }),
    address('x', { link: 'br1', address: '10.20.0.1/24' }),
  ]
  const old = [
    member('x', 'nic', 'br1'),
    address('x', { link: 'br1', address: '10.21.0.1/24' }),
    address('x', { link: 'br1', address: 'fd21::1/64' }),
    route('x', { destination: '10.22.0.0/16', gateway: '10.20.0.2' }),
    route('x', { destination: 'fd22::/32', gateway: 'fd21::2' }),
    policy('x', { priority: 100, from: '10.22.0.0/16', table: 22 }),
    neighbour('x', { link: 'br1', address: '10.20.0.3', mac: '02:00:00:00:00:03' }),
    link('y', { name: 'vx5', device: { type: 'vxlan', vni: 5, local: '10.1.0.1' }, mac: '02:00:00:00:00:05' }),
    route('y', { destination: '10.25.0.0/16', link: 'vx5' }),
  ]
  const changes: [NetlinkEntry, NetlinkEntry][] = [
    [member('x', 'st1p', 'br1'), member('x', 'st1p', 'br2')],
    [
      route('x', { destination: '10.23.0.0/16', gateway: '10.20.0.2' }),
      route('x', { destination: '10.23.0.0/16', gateway: '10.20.0.4' }),
    ],
    [
      route('x', { destination: 'fd23::/32', gateway: 'fd01::2' }),
      route('x', { destination: 'fd23::/32', type: 'blackhole' }),
    ],
    [
      neighbour('x', { link: 'left', address: '10.1.0.9', mac: '02:00:00:00:00:03' }),
      neighbour('x', { link: 'left', address: '10.1.0.9', mac: '02:00:00:00:00:04' }),
    ],
    [
      address('x', { link: 'br1', address: '10.24.0.1/24' }),
      address('x', { link: 'br1', address: '10.24.0.1/24', noPrefixRoute: true }),
    ],
  ]
  const fresh = [
    route('y', { destination: '10.27.0.0/16', gateway: '10.26.0.2' }),
    neighbour('y', { link: 'br2', address: '10.26.0.3', mac: '02:00:00:00:00:03' }),
    policy('y', { priority: 101, iif: 'br2', table: 22 }),
    address('y', { link: 'br2', address: '10.26.0.1/24' }),
    link('y', { name: 'st2', device: { type: 'veth', peer: 'st2p' }, mac: '02:00:00:00:00:06' }),
    member('y', 'st2p', 'br2'),
    bridge('y', 'br2', { mac: '02:00:00:00:00:07', sysctls: [['ipv4/conf/br2/arp_announce', 2]] }),
  ]
  const inPlace: [NetlinkEntry, NetlinkEntry] = [
    bridge('x', 'br3', { mac: '02:00:00:00:00:08', mtu: 1500 }),
    bridge('x', 'br3', { mac: '02:00:00:00:00:09', mtu: 1400, sysctls: [['ipv4/conf/br3/rp_filter', 1]] }),
  ]
  const all = [...changes, inPlace]
  return {
    before: [...kept, ...old, ...all.map(([from]) => from)],
    diff: [...removed(...old), ...all.flatMap(([from, to]) => changed(from, to)), ...added(...fresh)],
    after: [...kept, ...all.map(([, to]) => to), ...fresh],
  }
}

function all() {
  quiet()
  site('left')
  ip('link', 'add', 'nic', 'type', 'veth', 'peer', 'name', 'nicp')

  t.test('err-11 a change of everything is carried out whole and taken back whole', async (t) => {
    const empty = dump()
    const driver = await openDriver(t)
    const { before, diff, after } = scene()
    await change(driver, added(...before))
    t.same(await differing(driver, before), [])
    const stood = dump()
    const undo = await change(driver, diff)
    t.same(await differing(driver, after), [])
    t.same(await differing(await openDriver(t), after), [], 'another agent finds the same')
    t.equal(await driver.changedByOthers(), false)
    await undo()
    t.same(dump(), stood)
    t.same(await differing(driver, before), [])
    t.equal(await driver.changedByOthers(), false)
    await change(driver, removed(...before))
    t.same(dump(), empty)
  })

  t.test('err-11 a refusal at the end takes back all that was done', async (t) => {
    const empty = dump()
    const driver = await openDriver(t)
    const { before, diff } = scene()
    await change(driver, added(...before))
    const stood = dump()
    const unreachable = route('x', { destination: '10.30.0.0/16', gateway: '198.51.100.7' })
    await t.rejects(driver.apply([...diff, ...added(unreachable)]), {
      name: 'KernelRefusal',
      message: /invalid gateway/,
    })
    t.same(dump(), stood)
    t.same(await differing(driver, before), [])
    await change(driver, removed(...before))
    t.same(dump(), empty)
  })

  t.test('err-11 wherever the kernel refuses, nothing of the change remains', { timeout: 90_000 }, async (t) => {
    const empty = dump()
    const rigged = riggedSocket()
    const driver = await openDriver(t, () => rigged.socket)
    const { before, diff } = scene()
    await change(driver, added(...before))
    const stood = dump()
    const first = rigged.commands
    const undo = await change(driver, diff)
    const total = rigged.commands - first
    await undo()
    t.ok(total > 30, `${total} commands`)
    let refusals = 0
    for (let n = 1; n <= total; n++) {
      const from = rigged.commands
      rigged.refuse = (command) => command === from + n
      await t.rejects(driver.apply(diff), { name: 'KernelRefusal' }, `command ${n}`)
      rigged.refuse = () => false
      if (!t.same(dump(), stood, `after a refusal of command ${n}`)) break
      refusals++
    }
    t.equal(refusals, total)
    t.same(await differing(driver, before), [])

    const from = rigged.commands
    rigged.refuse = (command) => command >= from + total / 2
    await t.rejects(driver.apply(diff), { name: 'UncertainOutcome' }, 'when taking back is refused too')
    rigged.refuse = () => false
    await change(driver, await differing(driver, before))
    t.same(await differing(driver, before), [])
    await change(driver, removed(...before))
    t.same(dump(), empty)
  })

  t.test('the cost of a change does not depend on how much there is', async (t) => {
    const rigged = riggedSocket()
    const driver = await openDriver(t, () => rigged.socket)
    const entry = route('x', { destination: '10.40.0.0/16', gateway: '10.1.0.2' })
    const samples: NetlinkEntry[] = [
      entry,
      route('x', { destination: '10.41.0.0/16', link: 'left' }),
      policy('x', { priority: 400, from: '10.40.0.0/16', table: 40 }),
      neighbour('x', { link: 'left', address: '10.1.0.200', mac: '02:00:00:00:00:01' }),
      bridge('x', 'br9'),
      address('x', { link: 'left', address: '10.42.0.1/24' }),
    ]
    const cost = async (diff: readonly Passage[]) => {
      const [messages, dumps] = [rigged.messages, rigged.dumps]
      await change(driver, diff)
      return [rigged.messages - messages, rigged.dumps - dumps]
    }
    const measure = async () => {
      const costs = []
      for (const it of samples) costs.push([it.kind, await cost(added(it)), await cost(removed(it))])
      return costs
    }
    const few = await measure()
    t.same(few.slice(0, 2), [
      ['route', [1, 0], [1, 0]],
      ['route', [2, 0], [2, 0]],
    ])
    const many = [
      ...Array.from({ length: 1000 }, (_, n) =>
        route('x', { destination: `10.50.${n >> 2}.${(n & 3) * 64}/26`, gateway: '10.1.0.2' }),
      ),
      ...Array.from({ length: 100 }, (_, n) => policy('x', { priority: 500 + n, from: '10.40.0.0/16', table: 40 })),
      ...Array.from({ length: 100 }, (_, n) =>
        neighbour('x', { link: 'left', address: `10.1.0.${n + 10}`, mac: '02:00:00:00:00:01' }),
      ),
    ]
    await change(driver, added(...many))
    t.same(await measure(), few)
    t.same(await differing(driver, many), [])
    await change(driver, removed(...many))
    t.same(await differing(driver, []), [])
  })
}
