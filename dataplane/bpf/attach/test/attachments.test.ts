/** Programs on devices in either form: put up, found again, replaced, taken off, and nothing of others touched. */
import '../../../../test/inside.ts'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { requireRoot, type Scope } from '../../../../test/netns.ts'
import { NETLINK_ROUTE } from '../../../netlink/bind.ts'
import { openNetlink } from '../../../netlink/socket.ts'
import { layoutDir } from '../../bpffs.ts'
import { attachTcx } from '../../link.ts'
import { cable, lossWhile, ping } from '../../test/cable.ts'
import { bpffs, counter, loadProbe, run } from '../../test/support.ts'
import { type Attaching, openAttaching } from '../attaching.ts'
import type { Form, Kind, Place } from '../attachments.ts'
import { Filters, removeFilters } from '../filters.ts'
import { TRIAL_GROUP } from '../numbers.ts'

requireRoot(t)

const problems: unknown[] = []
const onProblem = (error: unknown) => void problems.push(error)

async function opened(t: Scope, form: Form): Promise<Attaching> {
  const attaching = await openAttaching({ form, onProblem })
  t.teardown(() => attaching.close())
  return attaching
}

const kindIn = (root: string, more: Partial<Kind> = {}): Kind => ({
  kind: 'port',
  dir: join(layoutDir(root), 'links'),
  pin: ({ what, ifindex, direction }) => `${what}-${ifindex}-${direction}`,
  place(pin) {
    const [what = '', ifindex, direction = ''] = pin.split('-')
    return { what, ifindex: Number(ifindex), direction: direction as Place['direction'] }
  },
  set: 1,
  ...more,
})

const tc = (line: string) => run('tc', ...line.split(' '))
/** A filter of somebody else, which matches nothing. */
const foreign = (side: string) =>
  run('tc', ...`filter add dev near ${side} bpf bytecode`.split(' '), '1,6 0 0 0,', 'flowid', '1:1')
const qdiscs = () => tc('qdisc show dev near clsact')

/** The form that the kernel has at best, and all that it has. */
const { form: best, close } = await openAttaching({ onProblem })
await close()
const forms: readonly Form[] = best === 'tcx' ? ['tcx', 'clsact'] : ['clsact']

t.test('the trial tells a form that works and leaves no device behind', async (t) => {
  run('ip', 'link', 'add', 'sttrial', 'group', String(TRIAL_GROUP), 'type', 'veth', 'peer', 'name', 'sttrialp')
  run('ip', 'link', 'set', 'sttrial', 'up')
  const before = run('ip', '-o', 'link').split('\n').length
  const either = await openAttaching({ onProblem })
  t.teardown(() => either.close())
  t.equal(either.form, best, 'tcx where the kernel has it')
  t.equal((await opened(t, 'clsact')).form, 'clsact')
  t.equal(
    run('ip', '-o', 'link').split('\n').length,
    before - 2,
    'nor what a killed agent left, though somebody set it up',
  )
  for (const kind of ['bridge', 'veth']) {
    run('ip', 'link', 'add', 'sttrial', 'type', kind)
    await t.rejects(openAttaching({ onProblem }), { message: /rename the interface sttrial/ })
    run('ip', 'link', 'del', 'sttrial')
  }
})

const skip = best === 'tcx' ? false : 'the kernel has no tcx'
t.test('a program whose pin somebody has just deleted is put up again', { skip }, async (t) => {
  const root = bpffs(t)
  const probe = await loadProbe(t, { pinDir: layoutDir(root) }, 'counts')
  const { index } = cable(t)
  const place: Place = { what: 'workload', ifindex: index, direction: 'ingress' }
  const links = (await opened(t, 'tcx')).of(kindIn(root))
  for (let round = 0; round < 50; round++) {
    t.ok(await links.attach(place, probe.program('count_first')))
    rmSync(join(layoutDir(root), 'links', `workload-${index}-ingress`))
  }
  await attachTcx(probe.program('count_second'), index, 'ingress', 'last')
  await t.rejects(links.attach(place, probe.program('count_second')), { code: 'EEXIST' }, 'one that stays is told')
})

for (const form of forms) {
  t.test(`${form}: attached, found by the next agent, taken off`, async (t) => {
    const root = bpffs(t)
    const probe = await loadProbe(t, { pinDir: layoutDir(root) }, 'counts')
    const { peer, index } = cable(t)
    const place: Place = { what: 'workload', ifindex: index, direction: 'ingress' }
    const first = (await opened(t, form)).of(kindIn(root))
    t.notOk(await first.stands(place))
    t.ok(await first.attach(place, probe.program('count_first')))
    t.equal(ping(peer, 3), 3)
    const seen = counter(probe, 0)
    t.ok(seen >= 3, 'every packet meets the program')

    const second = (await opened(t, form)).of(kindIn(root))
    t.ok(await second.stands(place))
    t.same(await second.list(), [{ ...place, stands: true }])
    t.ok(await second.attach(place, probe.program('count_second')))
    ping(peer, 3)
    t.equal(counter(probe, 1), 0, 'what stands stays as it is')
    await second.detach(place)
    t.same(await second.list(), [])
    const last = counter(probe, 0)
    t.equal(ping(peer, 3), 3)
    t.equal(counter(probe, 0), last)
    t.equal(qdiscs(), '', 'the qdisc went with the last filter')
    t.notOk(await second.attach({ ...place, ifindex: 4711 }, probe.program('count_first')), 'the device is gone')
  })

  t.test(`${form}: a program of another build takes over without losing a packet`, async (t) => {
    const root = bpffs(t)
    const probe = await loadProbe(t, { pinDir: layoutDir(root) }, 'counts')
    const { peer, index } = cable(t)
    const place: Place = { what: 'balancer', ifindex: index, direction: 'ingress' }
    const links = (await opened(t, form)).of(kindIn(root, { kind: 'balancer', exact: true }))
    await links.attach(place, probe.program('count_first'))
    let swaps = 0
    const lost = await lossWhile(peer, 300, async (ended) => {
      for (; !ended() && swaps < 200; swaps++)
        await links.attach(place, probe.program(swaps % 2 ? 'count_first' : 'count_second'))
    })
    t.equal(lost, 0)
    t.ok(swaps >= 5, `${swaps} swaps`)
    t.equal((await links.list()).length, 1)
    await links.detach(place)
  })
}

t.test('clsact: a program that goes on from other maps is replaced in its place', async (t) => {
  const root = bpffs(t)
  const probe = await loadProbe(t, { pinDir: layoutDir(root) }, 'counts')
  const { peer, index } = cable(t)
  const place: Place = { what: 'workload', ifindex: index, direction: 'ingress' }
  const attaching = await opened(t, 'clsact')
  await attaching.of(kindIn(root)).attach(place, probe.program('count_first'))
  for (const form of [...forms].reverse()) {
    const set = form === 'tcx' ? 3 : 2
    const next = (await opened(t, form)).of(kindIn(root, { set }))
    t.same(await next.list(), [{ ...place, stands: false }])
    const lost = await lossWhile(peer, 50, async () => void (await next.attach(place, probe.program('count_second'))))
    t.equal(lost, 0)
    t.same(await next.list(), [{ ...place, stands: true }], `one program, and no second one by ${form}`)
  }
  const [one, two] = [counter(probe, 0), counter(probe, 1)]
  ping(peer, 3)
  t.equal(counter(probe, 0), one)
  t.ok(counter(probe, 1) >= two + 3)
})

t.test('with tcx at hand, what hangs by clsact stays there, and goes with it', async (t) => {
  const root = bpffs(t)
  const probe = await loadProbe(t, { pinDir: layoutDir(root) }, 'counts')
  const { peer, index } = cable(t)
  const place: Place = { what: 'workload', ifindex: index, direction: 'ingress' }
  const earlier = await openAttaching({ form: 'clsact', onProblem })
  await earlier.of(kindIn(root)).attach(place, probe.program('count_first'))
  await earlier.close()
  const later = (await opened(t, best)).of(kindIn(root))
  t.ok(await later.stands(place))
  await later.attach(place, probe.program('count_second'))
  ping(peer, 3)
  t.equal(counter(probe, 1), 0, 'no packet is judged twice')
  await later.detach(place)
  t.same(await later.list(), [])
  t.equal(qdiscs(), '')
})

t.test('clsact: what others have there stays, and the qdisc with it', async (t) => {
  const root = bpffs(t)
  const probe = await loadProbe(t, { pinDir: layoutDir(root) }, 'counts')
  const { index } = cable(t)
  const links = (await opened(t, 'clsact')).of(kindIn(root))
  const ends = (['ingress', 'egress'] as const).map((direction): Place => ({ what: 'host', ifindex: index, direction }))
  const put = async () => {
    for (const end of ends) await links.attach(end, probe.program('count_first'))
  }
  const off = async () => {
    for (const end of ends) await links.detach(end)
  }
  await put()
  foreign('egress')
  await off()
  t.match(qdiscs(), 'clsact', 'somebody has a filter in our qdisc')
  t.match(tc('filter show dev near egress'), 'bytecode')
  tc('qdisc del dev near clsact')
  tc('qdisc add dev near clsact')
  await put()
  await off()
  t.match(qdiscs(), 'clsact', "somebody else's qdisc, empty as it was")
  tc('qdisc del dev near clsact')
  tc('qdisc add dev near ingress')
  await t.rejects(put(), { message: /interface [0-9]+ has an ingress qdisc .* tc qdisc del dev DEVICE ingress/ })
  t.equal(tc('filter show dev near ingress'), '')
})

t.test('clsact: ours are met first, and what somebody takes off is told and can be put back', async (t) => {
  const root = bpffs(t)
  const probe = await loadProbe(t, { pinDir: layoutDir(root) }, 'counts')
  const { index } = cable(t)
  tc('qdisc add dev near clsact')
  foreign('ingress')
  const attaching = await opened(t, 'clsact')
  const guard = attaching.of(kindIn(root))
  const balancer = attaching.of(kindIn(root, { kind: 'balancer' }))
  const [what, place] = ['workload', { ifindex: index, direction: 'ingress' } as const]
  await balancer.attach({ what, ...place }, probe.program('count_second'))
  await guard.attach({ what, ...place }, probe.program('count_first'))
  t.match(
    tc('filter show dev near ingress'),
    /pref 1 bpf .*stratum\/1\/workload[\s\S]*pref 2 bpf .*stratum[\s\S]*bytecode/,
  )
  const told: (number | undefined)[] = []
  attaching.onChange((ifindex) => told.push(ifindex))
  for (const line of ['filter del dev near ingress pref 1', 'qdisc del dev near clsact']) {
    tc(line)
    t.notOk(await guard.stands({ what, ...place }), line)
    t.ok(told.splice(0).includes(index))
    await guard.attach({ what, ...place }, probe.program('count_first'))
    t.ok(await guard.stands({ what, ...place }))
  }
  const filters = new Filters(openNetlink(NETLINK_ROUTE), onProblem)
  t.equal(await removeFilters(filters), 1)
  await filters.close()
  t.equal(qdiscs(), '')
  t.same(problems, [])
})
