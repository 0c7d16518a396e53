import '../../../test/inside.ts'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { layoutDir } from '../bpffs.ts'
import { u32, u64 } from '../codec.ts'
import { attachNetfilter, openLink } from '../link.ts'
import { cable, lossWhile, ping } from './cable.ts'
import { bpffs, counter, loadProbe } from './support.ts'

requireRoot(t)

t.test('links and maps outlive a killed agent, and the next one takes over without losing a packet', async (t) => {
  const pinDir = layoutDir(bpffs(t))
  const { peer, index } = cable(t)
  const script = fileURLToPath(new URL('./first-agent.js', import.meta.url))
  const agent = spawn(process.execPath, [script, pinDir, String(index)], { stdio: ['ignore', 'inherit', 'inherit'] })
  t.same(await once(agent, 'exit'), [null, 'SIGKILL'])
  t.equal(ping(peer, 20), 20)

  const probe = await loadProbe(t, { pinDir })
  t.ok(counter(probe, 0) >= 20, 'tcx counted without an agent')
  t.ok(counter(probe, 2) >= 20, 'XDP counted without an agent')

  const [tcx, xdp, netfilter] = ['tcx', 'xdp', 'netfilter'].map((name) => openLink(join(pinDir, `link_${name}`)))
  if (!tcx || !xdp || !netfilter) return t.fail('a link is missing')
  t.not(tcx.info().programId, probe.program('count_first').id, 'still the program of the first agent')
  const lost = await lossWhile(peer, 200, async () => {
    await tcx.update(probe.program('count_second'))
    await xdp.update(probe.program('count_xdp_second'))
    // A netfilter link takes no other program: the new one is put beside the old one.
    probe.map('verdict', u32, u64).set(0, 1n)
    const place = { family: 'ipv4', hook: 'prerouting', priority: -149 } as const
    const next = await attachNetfilter(probe.program('judge'), place)
    await netfilter.detach()
    next.pin(join(pinDir, 'link_netfilter'))
    t.teardown(() => next.detach())
  })
  t.equal(lost, 0)
  t.ok(counter(probe, 1) > 0 && counter(probe, 3) > 0, 'the programs of the second agent work')
  t.equal(tcx.info().programId, probe.program('count_second').id)
  t.equal(xdp.info().programId, probe.program('count_xdp_second').id)
  await tcx.detach()
  await xdp.detach()
})
