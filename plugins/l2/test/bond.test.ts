/** Bonds over the real kernel, in a namespace of this file, with real bonds of iproute2 on the far side. */
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { here } from '../../../test/inside.ts'
import { requireFeatures } from '../../../test/kernel-features.ts'
import { netns, requireRoot } from '../../../test/netns.ts'
import type { bondNode, Shown } from './bond-node.ts'
import { cable, type LinkNow, linkNow, pinging, run, until } from './bond-site.ts'

const states = ({ members }: Shown) => Object.fromEntries(members.map((it) => [it.interface, it.state]))
const brief = (link: LinkNow | undefined) =>
  link && { master: link.master, mtu: link.mtu, up: link.flags.includes('UP'), address: link.address }

function all(node: typeof bondNode) {
  // One agent for all: where this takes long, a start does most of all.
  const made = node(t)

  t.test(
    'bond-01 bond-02 bond-04 bond-05 bond-06 bond-07 bond-08 a bond is made, filled, changed and leaves no trace',
    async (t) => {
      const far = netns(t, 'far')
      const { ok, call, again, events } = await made
      cable(far, 'm1', 'p1')
      cable(far, 'm2', 'p2')
      run('ip', 'link', 'set', 'm1', 'up', 'mtu', '1400')
      const before = { m1: brief(linkNow('m1')), m2: brief(linkNow('m2')) }
      t.match(before, { m1: { up: true }, m2: { up: false } })

      await ok('POST', '/api/v1/bonds', { id: 'lan', name: 'bond0', mode: '802.3ad' })
      const held = linkNow('bond0')
      t.match(held, { ifalias: 'stratum:l2', mtu: 1500 })
      t.ok(held?.flags.includes('UP'))
      t.match(held?.linkinfo?.info_data, {
        ...{ mode: '802.3ad', miimon: 100, xmit_hash_policy: 'layer2+3', ad_lacp_rate: 'fast' },
      })
      await ok('POST', '/api/v1/bonds/lan/members', { interface: 'm1' })
      await ok('POST', '/api/v1/bonds/lan/members', { interface: 'm2' })
      t.match(
        [linkNow('m1'), linkNow('m2')],
        [
          { master: 'bond0', mtu: 1500 },
          { master: 'bond0', mtu: 1500 },
        ],
      )
      await ok('PUT', '/api/v1/bonds/lan/mtu', { mtu: 2000 })
      t.match([linkNow('bond0'), linkNow('m1'), linkNow('m2')], [{ mtu: 2000 }, { mtu: 2000 }, { mtu: 2000 }])

      run('ip', 'address', 'add', '192.0.2.1/24', 'dev', 'bond0')
      const used = await call('DELETE', '/api/v1/bonds/lan')
      t.same([used.status, used.body.error], [409, 'bond bond0 is in use: it has the address 192.0.2.1/24'])
      run('ip', 'address', 'flush', 'dev', 'bond0')
      await ok('POST', '/api/v1/bridges/br-work/ports', { interface: 'bond0' })
      t.match(linkNow('bond0'), { master: 'br-work' })
      t.equal((await call('DELETE', '/api/v1/bonds/lan')).status, 409, 'a port of a bridge')
      await ok('DELETE', '/api/v1/bridges/br-work/ports/bond0')

      await ok('DELETE', '/api/v1/bonds/lan/members/m1')
      t.same(brief(linkNow('m1')), before.m1, 'as it was found')
      await ok('POST', '/api/v1/bonds/lan/members', { interface: 'm1' })
      await again()
      await ok('DELETE', '/api/v1/bonds/lan')
      t.equal(linkNow('bond0'), undefined)
      t.same({ m1: brief(linkNow('m1')), m2: brief(linkNow('m2')) }, before, 'both as they were found')
      t.same(
        events()
          .map(({ type }) => type)
          .filter((type) => /^bond(_member)?\.(?!state)/.test(type)),
        [
          ...['bond.created', 'bond_member.added', 'bond_member.added', 'bond.updated'],
          ...['bond_member.removed', 'bond_member.added', 'bond.deleted'],
        ],
      )
      run('ip', 'link', 'del', 'm1')
      run('ip', 'link', 'del', 'm2')
    },
  )

  t.test('err-11 what the kernel refuses leaves bond and member as they were', async (t) => {
    const far = netns(t, 'far')
    const { ok, call } = await made
    cable(far, 'm1', 'p1')
    run('ip', 'link', 'set', 'm1', 'up')
    run('ip', 'link', 'add', 'bond7', 'type', 'bond')
    const foreign = await call('POST', '/api/v1/bonds', { name: 'bond7', mode: 'active-backup' })
    t.match([foreign.status, foreign.body.error], [409, /bond7 exists and is not ours/])
    // A tunnel device takes no such MTU.
    run('ip', 'link', 'add', 'tun1', 'type', 'ipip', 'local', '192.0.2.1', 'remote', '192.0.2.2')
    run('ip', 'link', 'set', 'tun1', 'up')
    await ok('POST', '/api/v1/bonds', { id: 'lan', name: 'bond0', mode: '802.3ad' })
    const before = brief(linkNow('tun1'))
    t.equal((await call('POST', '/api/v1/bonds/lan/members', { interface: 'tun1' })).status, 409)
    t.same(brief(linkNow('tun1')), before, 'up again')
    t.same((await ok('GET', '/api/v1/bonds/lan')).bond, {
      ...{ id: 'lan', name: 'bond0', mode: '802.3ad', mtu: 1500, active_slave: '', members: [] },
    })
    run('ip', 'address', 'add', '192.0.2.1/24', 'dev', 'm1')
    t.match((await call('POST', '/api/v1/bonds/lan/members', { interface: 'm1' })).body, { error: /192\.0\.2\.1\/24/ })
    t.equal((await call('POST', '/api/v1/bonds/lan/members?force=1', { interface: 'm1' })).status, 200)
    await ok('DELETE', '/api/v1/bonds/lan')
    for (const name of ['m1', 'bond7', 'tun1']) run('ip', 'link', 'del', name)
  })

  t.test('bond-09 state-16 active-backup: a carrier is lost under traffic and comes back', async (t) => {
    const far = netns(t, 'far')
    const { ok, bond, events, again } = await made
    cable(far, 'm1', 'p1')
    cable(far, 'm2', 'p2')
    far.run('ip', 'link', 'set', 'p1', 'down')
    far.run('ip', 'link', 'set', 'p2', 'down')
    far.run('ip', 'link', 'add', 'far0', 'type', 'bond', 'mode', 'active-backup', 'miimon', '50')
    for (const port of ['p1', 'p2']) far.run('ip', 'link', 'set', port, 'master', 'far0')
    far.run('ip', 'link', 'set', 'far0', 'up')
    far.run('ip', 'address', 'add', '192.0.2.2/24', 'dev', 'far0')

    await ok('POST', '/api/v1/bonds', { id: 'lan', name: 'bond0', mode: 'active-backup' })
    for (const name of ['m1', 'm2']) await ok('POST', '/api/v1/bonds/lan/members', { interface: name })
    run('ip', 'address', 'add', '192.0.2.1/24', 'dev', 'bond0')
    const settled = await until(
      'one active, one standby',
      () => bond('lan'),
      (it) => {
        const found = Object.values(states(it)).sort()
        return found[0] === 'active' && found[1] === 'standby'
      },
    )
    const first = settled.active_slave
    const second = first === 'm1' ? 'm2' : 'm1'
    t.same(states(settled), { [first]: 'active', [second]: 'standby' })
    run('ping', '-n', '-q', '-c', '1', '-w', '20', '192.0.2.2')

    // The agent has looked once, which is what it compares with.
    await setTimeout(3000)
    const flood = pinging(far, '192.0.2.1')
    const port = first.replace('m', 'p')
    far.run('ip', 'link', 'set', port, 'down')
    const failed = await until(
      'failed over',
      () => bond('lan'),
      ({ active_slave }) => active_slave === second,
    )
    t.same(states(failed), { [first]: 'failed', [second]: 'active' })
    far.run('ip', 'link', 'set', port, 'up')
    const healed = await until(
      'back',
      () => bond('lan'),
      (it) => states(it)[first] !== 'failed',
    )
    t.same([healed.active_slave, states(healed)], [second, { [first]: 'standby', [second]: 'active' }])
    const told = () => events().filter(({ type }) => type === 'bond_member.state_changed')
    const moved = await until('told', told, (found) =>
      found.some(({ data }) => (data as { to: string }).to === 'active'),
    )
    t.match(moved.at(-1), { resource: '/api/v1/bonds/lan', data: { id: 'lan' } })
    await again()
    t.same(states(await bond('lan')), { [first]: 'standby', [second]: 'active' }, 'whatever the agent does')
    const { sent, lost } = await flood.stop()
    t.comment(`${lost} of ${sent} packets lost, one every 20 ms`)
    t.ok(sent > 20)
    t.ok(lost < 50, `lost ${lost} of ${sent}, less than a second of them`)
    run('ip', 'address', 'flush', 'dev', 'bond0')
    await ok('DELETE', '/api/v1/bonds/lan')
    for (const name of ['m1', 'm2']) run('ip', 'link', 'del', name)
  })

  t.test('bond-09 state-16 802.3ad: aggregated, with another partner, without one, without a carrier', async (t) => {
    const far = netns(t, 'far')
    const { ok, bond } = await made
    const lacp = ['mode', '802.3ad', 'miimon', '50', 'lacp_rate', 'fast']
    far.run('ip', 'link', 'add', 'far0', 'type', 'bond', ...lacp)
    far.run('ip', 'link', 'add', 'far1', 'type', 'bond', ...lacp)
    for (const [near, other, master] of [
      ['m1', 'p1', 'far0'],
      ['m2', 'p2', 'far0'],
      ['m3', 'p3', 'far1'],
    ] as const) {
      cable(far, near, other)
      far.run('ip', 'link', 'set', other, 'down')
      far.run('ip', 'link', 'set', other, 'master', master)
    }
    for (const name of ['far0', 'far1']) far.run('ip', 'link', 'set', name, 'up')
    await ok('POST', '/api/v1/bonds', { id: 'lan', name: 'bond0', mode: '802.3ad' })
    const joined = (name: string) => ok('POST', '/api/v1/bonds/lan/members', { interface: name })
    const wanted = (m1: string, m2: string, m3?: string) => (it: Shown) =>
      JSON.stringify(states(it)) === JSON.stringify({ m1, m2, ...(m3 && { m3 }) })
    for (const name of ['m1', 'm2']) await joined(name)
    // The kernel stays with the partner that it finds first (bonding.rst, ad_select).
    await until('two aggregated', () => bond('lan'), wanted('active', 'active'))
    await joined('m3')
    const settled = await until('aggregated', () => bond('lan'), wanted('active', 'active', 'standby'))
    t.equal(settled.active_slave, '')

    far.run('ip', 'link', 'set', 'p2', 'down')
    await until('no carrier', () => bond('lan'), wanted('active', 'failed', 'standby'))
    far.run('ip', 'link', 'set', 'p2', 'up')
    await until('aggregated again', () => bond('lan'), wanted('active', 'active', 'standby'))
    far.run('ip', 'link', 'set', 'p2', 'nomaster')
    far.run('ip', 'link', 'set', 'p2', 'up')
    await until('no partner', () => bond('lan'), wanted('active', 'failed', 'standby'))
    t.pass('each was seen')
    await ok('DELETE', '/api/v1/bonds/lan')
    for (const name of ['m1', 'm2', 'm3']) run('ip', 'link', 'del', name)
  })

  t.test('persist-02 a reboot, a device that was away, and what others did are put right', async (t) => {
    const far = netns(t, 'far')
    const { ok, bond, again } = await made
    cable(far, 'm1', 'p1')
    cable(far, 'm2', 'p2')
    await ok('POST', '/api/v1/bonds', { id: 'lan', name: 'bond0', mode: 'active-backup', mtu: 1400 })
    for (const name of ['m1', 'm2']) await ok('POST', '/api/v1/bonds/lan/members', { interface: name })
    const stands = () => {
      const link = linkNow('bond0')
      return [link?.linkinfo?.info_data?.mode, link?.mtu, linkNow('m1')?.master, linkNow('m2')?.master]
    }
    const whole = ['active-backup', 1400, 'bond0', 'bond0']
    t.same(stands(), whole)
    const { ifindex } = linkNow('bond0') ?? {}
    await again()
    t.same([linkNow('bond0')?.ifindex, ...stands()], [ifindex, ...whole], 'a start leaves it as it is')
    await again(() => run('ip', 'link', 'del', 'bond0'))
    t.same(stands(), whole, 'after a reboot')

    const right = async (what: string) => {
      await until(what, stands, (seen) => JSON.stringify(seen) === JSON.stringify(whole))
      t.pass(what)
    }
    run('ip', 'link', 'set', 'm1', 'nomaster')
    await right('a member that somebody took out')
    run('ip', 'link', 'del', 'm2')
    await until(
      'it is away',
      () => bond('lan'),
      (it) => states(it).m2 === 'failed',
    )
    cable(far, 'm2', 'p2')
    await right('a device that comes back')
    await ok('DELETE', '/api/v1/bonds/lan')
    for (const name of ['m1', 'm2']) run('ip', 'link', 'del', name)
  })

  t.test('D9 a bond that a VLAN lies on stays', async (t) => {
    if (!requireFeatures(t, '8021q')) return
    const { ok, call } = await made
    await ok('POST', '/api/v1/bonds', { id: 'lan', name: 'bond0', mode: 'active-backup' })
    run('ip', 'link', 'add', 'link', 'bond0', 'name', 'v5', 'type', 'vlan', 'id', '5')
    t.same((await call('DELETE', '/api/v1/bonds/lan')).body, { error: 'bond bond0 is in use: v5 lies on it' })
    run('ip', 'link', 'del', 'v5')
    await ok('DELETE', '/api/v1/bonds/lan')
  })
}

// The process that only waits for this one need not load the agent.
if (requireRoot(t) && here !== undefined && requireFeatures(t, 'bonding'))
  all((await import('./bond-node.ts')).bondNode)
