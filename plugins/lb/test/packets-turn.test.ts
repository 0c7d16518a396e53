/** nft takes over from the programs, and the programs from nft: VIPs are served by either, and nothing of the other is left. */
import { existsSync, readdirSync } from 'node:fs'
import t, { type Test } from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { LB } from './area.ts'
import { lab, tallied, VIP } from './lab.ts'

requireRoot(t)

const it = await lab(t, 2)
const { agent, node, serve, drop, ask, vip, ok } = it
const inNft = () => node.run('nft', 'list', 'table', 'inet', 'stratum').includes(VIP)
const pins = `/sys/fs/bpf/${node.name}/lb`
const pinned = () => existsSync(pins) && readdirSync(pins).length > 0
const clean = async () => (await agent.call('POST', '/control/v1/drift', {})).body.status
const summary = async () => ((await ok('GET', '/api/v1/status')).acceleration as { summary: string }).summary

/** Asks all the time while `work` goes on: nobody is ever refused, though a connection may end that meets the turn. */
async function served(t: Test, work: () => Promise<void>): Promise<void> {
  const answers: string[] = []
  let over = false
  const asking = (async () => {
    // One that is reset after its answer came.
    while (!over) answers.push(...(await ask(1).catch(() => ['reset'])))
  })()
  await work()
  over = true
  await asking
  t.ok(answers.length > 0)
  t.notOk(answers.includes('ECONNREFUSED'), `${JSON.stringify(tallied(answers))}`)
}

t.test('persist-05 lb-15 from the programs to nft and back, each serves the VIPs', async (t) => {
  await serve(2)
  await serve(1, { id: 'least', frontend_port: 81, algorithm: 'least-conn' })
  t.same([inNft(), pinned()], [false, true])
  t.match(await summary(), /load balancer: eBPF programs, virtual addresses: 2;/)
  await served(t, () => agent.restart({ STRATUM_BALANCER: 'off' }))
  t.same([inNft(), pinned()], [true, false])
  t.match(await summary(), /load balancer: nft, by its connection tracking \(switched off/)
  t.same(tallied(await ask(6)), { b1: 3, b2: 3 })
  t.equal(await clean(), 'clean')
  const least = await vip('least')
  t.same(
    least.not_enforced?.map(({ field }) => field),
    ['algorithm'],
    'what nft cannot do is told',
  )
  t.same(await ask(1, { port: 81 }), ['ECONNREFUSED'], 'and not done otherwise')
  t.match(await agent.call('POST', `${LB}/least/backends`, { id: 'b2', ip: '10.9.0.12' }), { status: 200 })
  await ok('DELETE', `${LB}/least/backends/b2`)
  await served(t, () => agent.restart({ STRATUM_BALANCER: 'on' }))
  t.same([inNft(), pinned()], [false, true])
  t.same(tallied(await ask(6)), { b1: 3, b2: 3 })
  t.same([await ask(1, { port: 81 }), (await vip('least')).not_enforced], [['b1'], undefined])
  t.equal(await clean(), 'clean')
  await drop('web')
  await drop('least')
})

t.test('without the classifier nft balances, too', async (t) => {
  await serve(2)
  await agent.restart({ STRATUM_CLASSIFIER: 'off' })
  t.same([inNft(), pinned()], [true, false])
  t.match(await summary(), /load balancer: nft, by its connection tracking \(needs netlink and the classifier\)/)
  t.same(tallied(await ask(4)), { b1: 2, b2: 2 })
  await drop('web')
  t.notOk(inNft())
  t.equal(await clean(), 'clean')
})
