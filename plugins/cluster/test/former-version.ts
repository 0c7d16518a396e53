/**
 * A cluster as an earlier version left it, in which one authority, whose key each member and etcd had, signed all certificates. The members
 * are made anew to that: their files and rows are of that kind, and of a member of that version only its etcd runs. FORMER names
 * `core/main.js` of a build of such a version, whose agents are then used instead.
 */
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type ClusterNode, complete, eventually, joinBy, nodesOn, threeAgents } from '../../../test/cluster.ts'
import { etcdOf } from '../../../test/faults/world.ts'
import type { Scope } from '../../../test/netns.ts'
import { type Authority, certify, makeAuthority, publicKeyOf } from '../certificates.ts'
import { ETCD, etcdArguments, peerUrl } from '../etcd/child.ts'
import { openFiles } from '../files.ts'

export const FORMER = process.env.FORMER
const PROGRAM = fileURLToPath(new URL('etcd-ask.js', import.meta.url))

export interface FormerCluster {
  nodes: ClusterNode[]
  /** That all members have. */
  authority: Authority
}

/** What etcd says at `node` about a key, and what it is told before; undefined when there is none. */
export function askEtcd({ ns, agent, id }: ClusterNode, key: string, change: object = {}): string | undefined {
  const args = ['--unset=NODE_OPTIONS', process.execPath, PROGRAM, agent.stateDir, id, key, JSON.stringify(change)]
  return (JSON.parse(ns.run('env', ...args)) as { value?: string }).value
}

/** Three members of that version, none of them upgraded. */
export async function formerCluster(t: Scope): Promise<FormerCluster> {
  if (FORMER === undefined) return rewound(t)
  const { nodes } = await nodesOn(t, 3, { main: FORMER })
  const [n1, n2, n3] = nodes as [ClusterNode, ClusterNode, ClusterNode]
  await joinBy(n1, n2)
  await joinBy(n2, n3)
  await complete(nodes)
  return { nodes, authority: JSON.parse(askEtcd(n1, '/meta/ca') ?? '') }
}

async function rewound(t: Scope): Promise<FormerCluster> {
  const { nodes } = await threeAgents(t)
  for (const { agent } of nodes) await agent.kill('SIGKILL')
  await Promise.all(nodes.map((node) => gone(node)))
  const authority = await makeAuthority('x', 'authority')
  for (const node of nodes) runEtcd(t, node)
  const [first] = nodes as [ClusterNode]
  askEtcd(first, '/meta/ca', { put: { '/meta/ca': JSON.stringify(authority) }, removeAll: ['/t/'] })
  for (const node of nodes) {
    await endEtcd(node)
    await leaveFiles(node, authority)
  }
  for (const node of nodes) runEtcd(t, node)
  askEtcd(first, '/meta/ca')
  return { nodes, authority }
}

async function leaveFiles({ agent: { stateDir }, id, address }: ClusterNode, authority: Authority): Promise<void> {
  const files = openFiles(stateDir)
  const { key = '' } = files.tls() ?? {}
  const certificate = await certify(authority, { node: id, address, publicKey: publicKeyOf(key) }, new Date())
  files.keep({ ca: authority.certificate, certificate, key })
  writeFileSync(join(stateDir, 'cluster', 'ca-key.pem'), authority.key, { mode: 0o600 })
  for (const name of ['authority.pem', 'authority-key.pem']) rmSync(join(stateDir, 'cluster', name), { force: true })
}

function runEtcd(t: Scope, { ns, agent: { stateDir }, id, address }: ClusterNode): void {
  const files = openFiles(stateDir)
  const places = { dataDir: files.dataDir, certificateDir: files.certificateDir }
  const ports = { peerPort: 7074, clientPort: 7075 }
  const initialCluster = `${id}=${peerUrl(address, ports.peerPort)}`
  const child = ns.spawn(
    ETCD,
    etcdArguments({ node: id, cluster: 'x', address, ...ports, ...places, initialCluster, state: 'existing' }),
  )
  child.stderr?.resume()
  t.teardown(() => void child.kill('SIGKILL'))
}

async function endEtcd(node: ClusterNode): Promise<void> {
  const pid = etcdOf(node)
  if (pid !== undefined) process.kill(pid, 'SIGTERM')
  await gone(node)
}

const gone = (node: ClusterNode) => eventually(`etcd of ${node.id} ends`, () => etcdOf(node) === undefined)
