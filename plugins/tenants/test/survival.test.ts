/**
 * A deletion that is killed in the middle has happened as a whole or not at all, and the kernel holds what the store does.
 * KILLS sets how often (short by default), SEED makes a run repeatable.
 */
import { once } from 'node:events'
import t from 'tap'
import { chance } from '../../../test/chance.ts'
import { requireRoot } from '../../../test/netns.ts'
import { SEED } from '../../../test/seed.ts'
import { type WorkloadNode, workloadNode } from '../../../test/workload.ts'

requireRoot(t)

const KILLS = Number(process.env.KILLS ?? 4)
const [NETWORKS, ENDPOINTS] = [8, 4]
const P = '/api/v1'

async function furnish(node: WorkloadNode): Promise<string> {
  const { tenant } = await node.ok('POST', `${P}/tenant`, { name: 'acme' })
  const { id } = tenant as { id: string }
  await node.ok('POST', `${P}/tenant/${id}/keys`, { label: 'portal' })
  for (let n = 0; n < NETWORKS; n++) {
    const fields = { name: `net${n}`, cidr: `10.${n}.0.0/24`, tenant_id: id, gateway: `10.${n}.0.1`, snat: true }
    const { network } = await node.ok('POST', `${P}/networks`, fields)
    const at = `${P}/networks/${(network as { id: string }).id}/attach`
    for (let m = 0; m < ENDPOINTS; m++) await node.ok('POST', at, {})
  }
  return id
}

t.test('tenant-05 tenant-06 persist-02 all or nothing', { timeout: 60_000 + KILLS * 15_000 }, async (t) => {
  t.comment(`KILLS=${KILLS} SEED=${SEED}`)
  const random = chance(SEED)
  const node = await workloadNode(t, { config: { uplink: 'lo' } })
  // The first one runs to its end, and tells how long one takes; it takes longer in an agent that has just started.
  const first = await furnish(node)
  const since = performance.now()
  await node.ok('DELETE', `${P}/tenant/${first}`)
  const usual = performance.now() - since
  let tenant: string | undefined
  const outcomes = { gone: 0, there: 0 }
  for (let kill = 0; kill < KILLS; kill++) {
    tenant ??= await furnish(node)
    const gone = once(node.agent.child, 'exit')
    const answered = node.agent.call('DELETE', `${P}/tenant/${tenant}`).then(
      ({ status }) => status,
      () => undefined,
    )
    setTimeout(() => node.agent.child.kill('SIGKILL'), random() * 3 * usual)
    const status = await answered
    await gone
    await node.agent.restart()
    const { found } = await node.ok('POST', '/control/v1/drift', { dry_run: true })
    t.same(found, [], `the kernel equals the store after kill ${kill + 1}`)
    const after = await node.agent.call('GET', `${P}/tenant/${tenant}/quota`)
    const { networks } = await node.ok('GET', `${P}/networks`)
    const { allocations } = await node.ok('GET', `${P}/ipam/allocations`)
    const left = [(networks as []).length, (allocations as []).length]
    if (after.status === 404) {
      t.same(left, [0, 0], 'all of it is gone')
      outcomes.gone++
      tenant = undefined
    } else {
      t.same(left, [NETWORKS, NETWORKS * ENDPOINTS], 'all of it is there')
      const usage = { networks: NETWORKS, endpoints: NETWORKS * ENDPOINTS, keys: 1 }
      t.match(after.body, { quota: { usage } })
      t.not(status, 200, 'nobody was told otherwise')
      outcomes.there++
    }
  }
  t.comment(JSON.stringify(outcomes))
})
