/** Who reaches the ports of a cluster: its members, and for a time those that come by a code. For one family of addresses. */
import type { Test } from 'tap'
import { type ClusterNode, complete, eventually, joinBy, nodesOn, standing, succeeded } from '../../../test/cluster.ts'
import { joinWith, newCode } from './given.ts'
import { hold, PORTS, reaches, seenFrom } from './reach.ts'

const P = '/api/v1'
const [DOOR, PEERS] = PORTS
const NOBODY = [false, false]
const DOOR_ALONE = [true, false]
const MEMBER = [true, true]
const ACTIONS = ['allow', 'deny'] as const

export async function guarded(t: Test, family: 4 | 6): Promise<void> {
  const { nodes, client } = await nodesOn(t, 3, { family })
  const [n1, n2, n3] = nodes as [ClusterNode, ClusterNode, ClusterNode]
  const act = async (of: readonly ClusterNode[], default_action: string) => {
    for (const { agent } of of) succeeded(await agent.call('PUT', `${P}/rules/default`, { default_action }))
  }
  // Of no use to strangers but while there is a code.
  const rule = { action: 'accept', protocol: 'tcp', dest_port: DOOR }
  for (const { agent } of nodes) succeeded(await agent.call('POST', `${P}/rules`, rule))

  const { code } = await newCode(n1)
  for (const action of ACTIONS) {
    await act(nodes, action)
    t.same(await seenFrom(client, n1), DOOR_ALONE, `${action}: whoever may hold the code is heard, by the agent alone`)
  }
  succeeded(await joinWith(n2, code))
  await joinBy(n2, n3)
  await complete(nodes)
  for (const action of ACTIONS) {
    await act(nodes, action)
    t.same(await seenFrom(n2.ns, n1), MEMBER, `${action}: a member is heard`)
    for (const node of [n1, n2])
      t.same(await seenFrom(client, node), NOBODY, `${action}: nobody else is, by ${node.id}`)
  }

  const { id } = await newCode(n2)
  await eventually('a code opens all doors', () => reaches(client, n1, DOOR))
  succeeded(await n1.agent.call('DELETE', `${P}/cluster/join-codes/${id}`))
  t.same(await seenFrom(client, n1), NOBODY, 'a revoked one opens none')
  await eventually('nowhere', async () => !(await reaches(client, n2, DOOR)))

  const held = await hold(n3.ns, n1, PEERS)
  succeeded(await n1.agent.call('DELETE', `${P}/cluster/members/n3`))
  t.same(await seenFrom(n3.ns, n1), NOBODY, 'from the answer on a removed member is not heard')
  t.not(await held.unheard(), 0, 'nor on a connection that it had')
  held.end()
  await eventually('nor by the others', async () => (await seenFrom(n3.ns, n2)).every((heard) => !heard))
  const [other, length, how] = family === 4 ? ['10.8.0.77', 24, []] : ['fd08::77', 64, ['nodad']]
  n3.ns.run('ip', 'addr', 'add', `${other}/${length}`, 'dev', 'eth0', ...how)
  for (const action of ACTIONS) {
    await act([n1, n2], action)
    t.same(await seenFrom(n3.ns, n1, other), NOBODY, `${action}: nor by another address`)
  }
  await n1.agent.restart()
  t.same(await seenFrom(n3.ns, n1), NOBODY, 'nor after a restart')
  await complete([n1, n2])
  await eventually('it hears that it was removed', async () => (await standing(n3)).peers.length === 0)
}
