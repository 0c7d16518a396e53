/** Members of an earlier version, which had one authority for all, are upgraded one after the other while everybody writes. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { MAIN } from '../../../test/agent.ts'
import { type ClusterNode, complete, eventually, succeeded } from '../../../test/cluster.ts'
import { requireRoot } from '../../../test/netns.ts'
import { certificatesIn, fingerprint256 } from '../authority.ts'
import { certify, makeKey } from '../certificates.ts'
import { askEtcd, FORMER, formerCluster } from './former-version.ts'
import { ask, isAnswered, peerPaths } from './kept.ts'

requireRoot(t)
const P = '/api/v1'
/** Of an election, and of a start of etcd after it. */
const GAP_MS = 15_000
/** Of each member's agent. */
const KILLS = Number(process.env.KILLS ?? 1)

interface Writer {
  /** Names that were acknowledged. */
  made: string[]
  /** The longest time without an acknowledgement, in ms. */
  gap: number
  stop(): Promise<void>
}

/** Writes at whichever of `nodes` takes it. */
function writing(nodes: readonly ClusterNode[]): Writer {
  let [on, since] = [true, performance.now()]
  const writer: Writer = {
    made: [],
    gap: 0,
    async stop() {
      on = false
      await over
    },
  }
  const over = (async () => {
    for (let n = 0; on; n++) {
      const { agent } = nodes[n % nodes.length] as ClusterNode
      const name = `of the writer ${n}`
      const status = await agent.call('POST', `${P}/tenant`, { name }).then(
        (answer) => answer.status,
        () => 0,
      )
      if (status === 201) {
        writer.made.push(name)
        writer.gap = Math.max(writer.gap, performance.now() - since)
        since = performance.now()
      } else await new Promise((resolve) => setTimeout(resolve, 50))
    }
  })()
  return writer
}

const trustOf = async ({ agent }: ClusterNode) =>
  (await agent.call('GET', `${P}/cluster/status`)).body.trust as { state: string; behind: string[] } | undefined
const namesAt = async ({ agent }: ClusterNode) =>
  new Set(((await agent.call('GET', `${P}/tenant`)).body.tenants as { name: string }[]).map(({ name }) => name))

t.test('cluster-10 members of a version with one authority for all get their own ones by an upgrade', async (t) => {
  const { nodes, authority } = await formerCluster(t)
  const [n1, n2, n3] = nodes as [ClusterNode, ClusterNode, ClusterNode]
  const { key, publicKey } = makeKey()
  const forged = {
    key,
    certificate: await certify(authority, { node: 'n2', address: n2.address, publicKey }, new Date()),
  }
  const members = { host: n1.address, port: 7074, path: '/members' }
  t.equal(await ask(n2.ns, forged, members), '200', 'the key of the one authority opens etcd before')

  const upgraded: ClusterNode[] = FORMER ? [...nodes] : [n3]
  if (!FORMER) await n3.agent.restart({}, MAIN)
  const writer = writing(upgraded)
  for (const node of [n3, n2]) {
    await node.agent.restart({}, MAIN)
    if (!upgraded.includes(node)) upgraded.push(node)
    await eventually(`${node.id} takes changes`, async () => {
      const { status } = await node.agent.call('POST', `${P}/tenant`, { name: `of ${node.id}` })
      return status === 201 || status === 409
    })
    for (let kill = 0; kill < KILLS; kill++) {
      await new Promise((resolve) => setTimeout(resolve, 150 + 400 * kill))
      await node.agent.kill('SIGKILL')
      await node.agent.restart()
    }
  }
  await eventually('while versions are mixed it is told who keeps the one authority in use', async () => {
    const trust = await trustOf(n2)
    return trust?.state === 'changing' && trust.behind.join() === 'n1'
  })
  t.equal(await ask(n2.ns, forged, members), '200', 'the member of the earlier version goes on with the one authority')
  await n1.agent.restart({}, MAIN)
  if (!upgraded.includes(n1)) upgraded.push(n1)
  for (let kill = 0; kill < KILLS; kill++) {
    for (const { agent } of nodes) {
      await new Promise((resolve) => setTimeout(resolve, 300 * kill))
      await agent.kill('SIGKILL')
      await agent.restart()
    }
  }
  const since = performance.now()
  await complete(nodes)
  await eventually('nobody has anything left of the one authority', () =>
    nodes.every(({ agent: { stateDir } }) => {
      const own = readFileSync(join(stateDir, 'cluster', 'ca.pem'), 'utf8')
      const trusted = certificatesIn(own).map(fingerprint256)
      const left = existsSync(join(stateDir, 'cluster', 'ca-key.pem'))
      return !left && trusted.length === 3 && !trusted.includes(fingerprint256(authority.certificate))
    }),
  )
  for (const node of nodes) {
    await eventually(`${node.id} says that it is over`, async () => (await trustOf(node))?.state === 'current')
  }
  t.comment(`${Math.round(performance.now() - since)} ms after the last kill`)
  await writer.stop()
  t.equal(askEtcd(n1, '/meta/ca'), undefined, 'nor has etcd')
  t.ok(writer.gap < GAP_MS, `changes were never refused for longer than ${Math.round(writer.gap)} ms`)
  for (const node of nodes) {
    await eventually(`${node.id} has all ${writer.made.length} that were acknowledged`, async () => {
      const names = await namesAt(node)
      return writer.made.every((name) => names.has(name))
    })
  }
  for (const { address: host } of [n1, n3]) {
    for (const question of peerPaths(host)) t.notOk(isAnswered(await ask(n2.ns, forged, question)), question.path)
  }
  succeeded(await n1.agent.call('DELETE', `${P}/cluster/members/n3`))
  await complete([n1, n2])
  await eventually('they go on as any members', async () => (await trustOf(n2))?.state === 'current')
})
