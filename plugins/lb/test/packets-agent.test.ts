/** Connections that stand do not need the agent. */
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { openLink } from '../../../dataplane/bpf/link.ts'
import { BPF_LAYOUT } from '../../../dataplane/numbers.ts'
import { requireRoot } from '../../../test/netns.ts'
import { counts, ends, lab, living, six, tallied } from './lab.ts'
import { balanced, lane } from './lane.ts'

requireRoot(t)

const it = await lab(t, 3)
const { agent, node, leave, say, drop, ask, vip } = it
/** Numbers of the programs at the devices; none where nft balances. */
function programs(): number[] {
  if (lane === 'nft') return []
  const links = join('/sys/fs/bpf', node.name, 'lb', `v${BPF_LAYOUT}`, 'links')
  return readdirSync(links).map((name) => {
    const link = openLink(join(links, name))
    const info = link.info()
    void link.close()
    return info.kind === 'tcx' ? info.programId : 0
  })
}
const pinned = () => existsSync(`/sys/fs/bpf/${node.name}/lb`)

balanced('without a VIP no programs are loaded', async (t) => {
  t.notOk(pinned())
})

/** As for an agent with other programs: those there are cannot be taken over. */
const forgetPrograms = () => rmSync(`/sys/fs/bpf/${node.name}/lb/v${BPF_LAYOUT}/code`, { recursive: true, force: true })

for (const [signal, next, takesOver] of [
  ['SIGTERM', 'the next one', true],
  ['SIGKILL', 'the next one', true],
  ['SIGTERM', 'one with other programs', false],
  ['SIGKILL', 'one with other programs', false],
] as const) {
  balanced(`lb-26 connections live on when the agent ends by ${signal}, and with ${next}`, async (t) => {
    const held = await six(it)
    t.equal(pinned(), lane === 'programs')
    await say('web', 3, false)
    await leave('web', 2)
    const former = programs()
    await agent.kill(signal)
    t.equal((await living(held)).length, 6, 'without an agent')
    t.same(tallied(await ask(2)), { b1: 2 }, 'and new ones are served')
    if (!takesOver) forgetPrograms()
    await agent.restart()
    t.equal((await living(held)).length, 6, `with ${next}`)
    const now = programs()
    if (takesOver) t.same(now, former, 'the programs are those there were')
    else {
      t.equal(now.length, former.length)
      t.notOk(
        now.some((one) => former.includes(one)),
        'the programs took the place of the former',
      )
    }
    t.match((await vip('web')).backends, [
      { id: 'b1', healthy: true },
      { id: 'b3', healthy: false },
    ])
    await counts(it, 'web', [2, 2])
    t.same((await agent.call('POST', '/control/v1/drift', {})).body.status, 'clean')
    await ends(held)
    await drop('web')
  })
}
