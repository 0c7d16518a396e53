/** The classifier takes over from nft, and nft from the classifier: no packet is unjudged meanwhile, nothing is left behind. */
import { readdirSync } from 'node:fs'
import t from 'tap'
import { chains, table, walk } from './kernel.ts'
import { CLIENT, lab, OPEN, SERVER, SHUT, sees } from './lab.ts'
import { requireLane } from './lane.ts'
import { SPARED, undisturbed } from './undisturbed.ts'

requireLane(t)
const here = await lab(t)
const { agent, client, server, node, router, rule, enclose, reset, ids } = here
for (const proto of ['udp', 'tcp'] as const) await server.serve(proto, [1000, 1001])
await node.serve('udp', [SPARED])

const NFT = { STRATUM_CLASSIFIER: 'off' }
const CLASSIFIER = { STRATUM_CLASSIFIER: 'on' }

/** What is pinned for the classifier. */
function pinned(): string[] {
  try {
    return readdirSync(`/sys/fs/bpf/${router.name}/firewall`, { recursive: true, withFileTypes: true })
      .filter((entry) => !entry.isDirectory())
      .map(({ name }) => name)
  } catch {
    return []
  }
}

const inNft = () => [...walk(chains(table(router)), 'firewall_rules')].length
const judge = async () => {
  const path = `/control/v1/firewall/trace?src=${CLIENT.v4}&dst=${SERVER.v4}&proto=udp&dport=1000`
  const { judge, action } = (await agent.call('GET', path)).body
  return `${judge}: ${action}`
}
const clean = async () => (await agent.call('POST', '/control/v1/drift', {})).body.status

t.test('persist-05 enable-27 from the classifier to nft and back, under default deny and traffic', async (t) => {
  await enclose()
  for (let at = 0; at < 300; at++) await rule({ action: 'drop', dest_port: 5000 + at, priority: at % 7 })
  t.equal(await judge(), 'classifier: accept')
  t.ok(pinned().length > 0 && inNft() === 0, 'control: nft holds no rule')
  for (const round of [1, 2]) {
    await undisturbed(t, here, () => agent.restart(NFT))
    t.equal(await judge(), 'nft: accept', `round ${round}`)
    t.same(pinned(), [], 'the classifier is gone')
    t.equal(inNft(), (await ids()).length, 'nft holds the rules')
    t.notMatch(table(router), /ffff:5354/, 'and marks nothing')
    t.equal(await clean(), 'clean')

    await undisturbed(t, here, () => agent.restart(CLASSIFIER))
    t.equal(await judge(), 'classifier: accept', `round ${round}`)
    t.equal(inNft(), 0, 'nft holds no rule')
    t.same([...walk(chains(table(router)), 'firewall_default')], [], 'nor the default')
    t.equal(await clean(), 'clean')
  }
  await reset()
})

t.test('persist-02 a kill on the way is made good at the next start', async (t) => {
  await enclose()
  for (let at = 0; at < 200; at++) await rule({ action: 'drop', dest_port: 5000 + at })
  for (const [env, judged] of [
    [NFT, 'nft: accept'],
    [CLASSIFIER, 'classifier: accept'],
  ] as const) {
    // Some of them while the judges relieve each other: that takes a part of the start.
    for (let ms = 150; ms < 900; ms += 150) {
      const start = agent.restart(env)
      await Promise.race([start, new Promise((resolve) => setTimeout(resolve, ms))])
      agent.child.kill('SIGKILL')
      await start.catch(() => {})
    }
    await agent.restart(env)
    t.equal(await judge(), judged)
    await sees(t, client, { pass: OPEN, drop: SHUT }, 'judged as stored')
    t.equal(await clean(), 'clean')
  }
  await reset()
})
