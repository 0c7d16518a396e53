import '../../../test/inside.ts'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { here } from '../../../test/inside.ts'
import { requireRoot } from '../../../test/netns.ts'
import { layoutDir } from '../bpffs.ts'
import { u32, u64 } from '../codec.ts'
import { attachNetfilter, attachTcx, attachXdp, openLink } from '../link.ts'
import { cable, HERE, lossWhile, ping } from './cable.ts'
import { bpffs, counter, ifindex, loadProbe, run } from './support.ts'

requireRoot(t)

t.test('the test stands in a namespace of its own', async (t) => {
  t.match(here, /^stt/)
  t.notMatch(run('ip', '-o', 'link'), / eth0/)
})

t.test('tcx programs see the packets of their direction', async (t) => {
  const probe = await loadProbe(t)
  const { peer, index } = cable(t)
  const ingress = await attachTcx(probe.program('count_first'), index, 'ingress')
  const egress = await attachTcx(probe.program('count_second'), index, 'egress')
  t.match(ingress.info(), {
    kind: 'tcx',
    id: Number,
    programId: probe.program('count_first').id,
    ifindex: index,
    direction: 'ingress',
  })
  t.match(egress.info(), { kind: 'tcx', direction: 'egress' })
  t.equal(ping(peer, 20), 20)
  t.ok(counter(probe, 0) >= 20)
  t.ok(counter(probe, 1) >= 20)

  await ingress.detach()
  const seen = counter(probe, 0)
  t.equal(ping(peer, 5), 5)
  t.equal(counter(probe, 0), seen, 'a detached program sees nothing')
  const before = counter(probe, 1)
  await egress.close()
  t.equal(ping(peer, 5), 5)
  t.equal(counter(probe, 1), before, 'a link that is not pinned ends with its handle')
})

t.test('a program is replaced without losing a packet', async (t) => {
  const probe = await loadProbe(t)
  const { peer, index } = cable(t)
  const programs = {
    tcx: [probe.program('count_first'), probe.program('count_second')],
    xdp: [probe.program('count_xdp'), probe.program('count_xdp_second')],
  } as const
  const tcx = await attachTcx(programs.tcx[0], index, 'ingress')
  const { link: xdp } = await attachXdp(programs.xdp[0], index, 'generic')
  let swaps = 0
  const lost = await lossWhile(peer, 400, async (ended) => {
    for (; !ended() && swaps < 1000; swaps++) {
      await tcx.update(programs.tcx[swaps % 2 ? 0 : 1])
      await xdp.update(programs.xdp[swaps % 2 ? 0 : 1])
    }
  })
  t.equal(lost, 0)
  t.ok(swaps > 10, `${swaps} swaps`)
  t.ok(counter(probe, 0) > 0 && counter(probe, 1) > 0, 'both tcx programs have worked')
  t.ok(counter(probe, 2) > 0 && counter(probe, 3) > 0, 'both XDP programs have worked')
  await Promise.all([tcx.detach(), xdp.detach()])
})

t.test('XDP runs in the driver where it can and in the stack elsewhere', async (t) => {
  const probe = await loadProbe(t)
  const program = probe.program('count_xdp')
  const { peer, index } = cable(t)

  const native = await attachXdp(program, index)
  t.equal(native.mode, 'native')
  t.match(run('ip', 'link', 'show', 'near'), / xdp /)
  await t.rejects(attachXdp(program, index), { code: 'EBUSY', message: /cannot attach count_xdp to native XDP/ })
  await native.link.detach()

  run('ip', 'link', 'add', 'bridge', 'type', 'bridge')
  t.teardown(() => run('ip', 'link', 'del', 'bridge'))
  run('ip', 'link', 'set', 'bridge', 'up')
  run('ip', 'link', 'set', 'near', 'master', 'bridge')
  run('ip', 'address', 'add', `${HERE}/24`, 'dev', 'bridge')
  run('ip', 'address', 'del', `${HERE}/24`, 'dev', 'near')
  const generic = await attachXdp(program, ifindex('bridge'))
  t.equal(generic.mode, 'generic')
  t.match(generic.nativeRefusal, { code: 'ENOTSUP', message: /cannot attach count_xdp to native XDP/ })
  t.match(generic.link.info(), { kind: 'xdp', ifindex: ifindex('bridge'), programId: program.id })
  t.match(run('ip', 'link', 'show', 'bridge'), / xdpgeneric /)
  const seen = counter(probe, 2)
  t.equal(ping(peer, 10), 10)
  t.ok(counter(probe, 2) >= seen + 10)
  await generic.link.detach()
})

t.test('a netfilter program lets pass and drops', async (t) => {
  const probe = await loadProbe(t)
  const verdict = probe.map('verdict', u32, u64)
  const { peer } = cable(t)
  const place = { family: 'ipv4', hook: 'prerouting', priority: -150 } as const
  verdict.set(0, 1n)
  const link = await attachNetfilter(probe.program('judge'), place)
  t.same(link.info(), { kind: 'netfilter', id: link.info().id, programId: probe.program('judge').id, hook: place })
  t.equal(link.deviceGone(), false)
  t.equal(ping(peer, 10), 10)
  verdict.set(0, 0n)
  t.equal(ping(peer, 3), 0)
  await t.rejects(attachNetfilter(probe.program('judge'), place), {
    code: 'EBUSY',
    message: 'EBUSY: cannot attach judge to ipv4 prerouting at priority -150',
  })
  await t.rejects(link.update(probe.program('judge')), { code: 'ENOTSUP' })

  const next = await attachNetfilter(probe.program('judge'), { ...place, priority: -149 })
  await link.detach()
  t.equal(ping(peer, 3), 0, 'the program at the neighbouring priority has taken over')
  await next.detach()
  t.equal(ping(peer, 10), 10)
})

t.test('a pinned link stays until it is detached', async (t) => {
  const pinDir = layoutDir(bpffs(t))
  const probe = await loadProbe(t, { pinDir })
  const { peer, index } = cable(t)
  const path = join(pinDir, 'link')
  const first = await attachTcx(probe.program('count_first'), index, 'ingress')
  first.pin(path)
  t.throws(() => first.pin(path), { code: 'EEXIST' })
  await first.close()
  t.equal(ping(peer, 5), 5)
  t.ok(counter(probe, 0) >= 5, 'works without a handle')
  const again = openLink(path)
  t.match(again.info(), { kind: 'tcx', ifindex: index, direction: 'ingress' })
  await again.update(probe.program('count_second'))
  t.equal(again.info().programId, probe.program('count_second').id)
  await again.detach()
  t.notOk(existsSync(path))
  const seen = counter(probe, 1)
  t.equal(ping(peer, 5), 5)
  t.equal(counter(probe, 1), seen)
  t.throws(() => openLink(path), { code: 'ENOENT' })
})

t.test('the loss of the interface is seen and the link can be removed', async (t) => {
  const pinDir = layoutDir(bpffs(t))
  const probe = await loadProbe(t, { pinDir })
  const { index, unplug } = cable(t)
  const tcx = await attachTcx(probe.program('count_first'), index, 'egress')
  const { link: xdp } = await attachXdp(probe.program('count_xdp'), index, 'generic')
  tcx.pin(join(pinDir, 'tcx'))
  xdp.pin(join(pinDir, 'xdp'))
  t.equal(tcx.deviceGone(), false)
  t.equal(xdp.deviceGone(), false)
  unplug()
  t.equal(tcx.deviceGone(), true)
  t.equal(xdp.deviceGone(), true)
  await t.rejects(tcx.update(probe.program('count_second')), { code: 'ENOLINK' })
  await t.rejects(xdp.update(probe.program('count_xdp_second')), { code: 'ENOLINK' })
  await tcx.detach()
  await xdp.detach()
  t.notOk(existsSync(join(pinDir, 'tcx')) || existsSync(join(pinDir, 'xdp')))
  await t.rejects(attachTcx(probe.program('count_first'), index, 'egress'), { code: 'ENODEV' })
})
