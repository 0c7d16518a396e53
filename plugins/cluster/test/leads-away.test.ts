/** A member that leads while its agent stands still: its etcd goes on, and trusts nobody who comes then. */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Answer } from '../../../test/build.ts'
import { type ClusterNode, complete, eventually, joinBy, nodesOn, standing, succeeded } from '../../../test/cluster.ts'
import { requireRoot } from '../../../test/netns.ts'
import { onward } from '../../../test/onward.ts'
import { deafen, lead, standStill } from './away.ts'
import { joinWith, newCode } from './given.ts'
import { remove, trustOf } from './trusted.ts'

const REFUSED = /member n3 leads the cluster, and its agent does not answer.*restart stratumd on n3, or remove n3/

requireRoot(t)
const step = onward(t)
const { nodes } = await nodesOn(t, 4)
const [n1, n2, n3, n4] = nodes as [ClusterNode, ClusterNode, ClusterNode, ClusterNode]
for (const node of [n2, n3]) await joinBy(n1, node)
await complete([n1, n2, n3])

const memberIds = async () => (await standing(n1)).peers.map(({ id }) => id).sort()

async function nothingIsLeft(t: Test): Promise<void> {
  t.same(await memberIds(), ['n2', 'n3'], 'it is no member')
  t.same((await standing(n4)).peers, [], 'nor is it one of its own accord')
  const { stateDir } = n4.agent
  const left = ['etcd', 'cluster'].map((name) => join(stateDir, name)).filter((path) => existsSync(path))
  t.same(
    left.flatMap((path) => readdirSync(path)),
    [],
    'it has no key and no data of the cluster',
  )
}

/**
 * n4 is on its way, deaf, while n1 leads and n3 stands still. Before it has begun n3 may be elected, as happens on a busy machine:
 * then it is refused outright, as above, and comes again.
 */
async function onItsWay(t: Test): Promise<{ joined: Promise<Answer>; goOn: () => void; hear: () => void }> {
  const data = join(n4.agent.stateDir, 'etcd', 'member')
  for (;;) {
    await lead(n1, n1)
    const goOn = await standStill(n1, n3)
    t.teardown(goOn)
    const hear = deafen(n4)
    t.teardown(hear)
    const { code } = await newCode(n1)
    const joined = joinWith(n4, code)
    const begun = eventually('n4 has begun to enter', () => existsSync(data))
    const answer = await Promise.race([begun.then(() => undefined), joined])
    if (answer === undefined) return { joined, goOn, hear }
    if (!REFUSED.test(answer.text)) throw new Error(`refused before it began: ${answer.text}`)
    hear()
    goOn()
    await complete([n1, n2, n3])
  }
}

step('a node that comes then is refused at once, and comes by the same code once the leader is back', async (t) => {
  await lead(n1, n3)
  const goOn = await standStill(n1, n3)
  t.teardown(goOn)
  const { code } = await newCode(n1)
  const { status, text } = await joinWith(n4, code)
  t.equal(status, 409)
  t.match(text, REFUSED)
  await nothingIsLeft(t)
  goOn()
  await complete([n1, n2, n3])
  succeeded(await joinWith(n4, code))
  await complete(nodes)
  succeeded(await remove(n1, n4))
  await eventually('n4 knows', async () => (await standing(n4)).peers.length === 0)
})

step('a node that is on its way is refused when such a member takes the lead', async (t) => {
  const { joined, goOn, hear } = await onItsWay(t)
  await lead(n1, n3)
  hear()
  const { status, text } = await joined
  t.equal(status, 409)
  t.match(text, REFUSED)
  await nothingIsLeft(t)
  goOn()
  await complete([n1, n2, n3])
})

step('a node that such a member trusts by then votes by the help of another', async (t) => {
  const hear = deafen(n4)
  t.teardown(hear)
  const { code } = await newCode(n1)
  const joined = joinWith(n4, code)
  await eventually('all trust it', async () => {
    return (await memberIds()).includes('n4') && (await trustOf(n1))?.state === 'current'
  })
  await lead(n1, n3)
  const goOn = await standStill(n1, n3)
  t.teardown(goOn)
  hear()
  succeeded(await joined)
  t.equal((await standing(n1)).leader, 'n3')
  goOn()
  await complete(nodes)
})

step('such a member can be removed', async () => {
  await lead(n1, n3)
  const goOn = await standStill(n1, n3)
  succeeded(await remove(n1, n3))
  goOn()
  await complete([n1, n2, n4])
  await eventually('n3 knows', async () => (await standing(n3)).peers.length === 0)
})
