/** What real guests of tenants have carried, as billing tells it. */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { workloadNode } from '../../../test/workload.ts'
import type { Billing } from '../schemas.ts'
import { addNetwork, addTenant, place } from './node.ts'

requireRoot(t)

const [MANY, SIZE] = [30, 1000]
/** Echo requests and answers, each sent by one workload of the tenant and got by the other. */
const CARRIED = MANY * 2 * 2 * (SIZE + 42)

t.test('D107 acct-09 each tenant is told its own traffic, also where addresses and MACs are the same', async (t) => {
  const node = await workloadNode(t, { config: { uplink: 'lo' } })
  const [a, b, c, d] = [node.guest('a'), node.guest('b'), node.guest('c'), node.guest('d')]
  const tenants = [await addTenant(node, 'one'), await addTenant(node, 'two')] as const
  for (const [n, [first, second]] of (
    [
      [a, b],
      [c, d],
    ] as const
  ).entries()) {
    const lan = await addNetwork(node, { name: `lan${n}`, cidr: '10.0.0.0/24', tenant_id: tenants[n] })
    await place(node, lan, first, '10.0.0.1')
    await place(node, lan, second, '10.0.0.2')
  }
  await node.guarded(a, b, c, d)
  const bytes = async (tenant: string) =>
    ((await node.ok('GET', `/api/v1/billing/tenants/${tenant}`)).billing as Billing).bytes_total
  const fresh = async (tenant: string, least: number) => {
    const signal = AbortSignal.timeout(20_000)
    // What was read within a second is told as it was.
    for (;;) {
      const now = await bytes(tenant)
      if (now >= least) return now
      signal.throwIfAborted()
      await new Promise((wait) => setTimeout(wait, 100))
    }
  }
  t.ok(a.reaches('10.0.0.2') && c.reaches('10.0.0.2'))
  a.ns.run('ping', '-n', '-q', '-c', String(MANY), '-i', '0.01', '-s', String(SIZE), '10.0.0.2')
  const carried = await fresh(tenants[0], CARRIED)
  // Neighbours are asked for now and then.
  t.ok(carried < CARRIED + 10_000, `${carried}, of which ${CARRIED} are echoes`)
  t.ok((await bytes(tenants[1])) < 10_000, 'not the traffic of the other one')
  await node.agent.kill('SIGKILL')
  a.ns.run('ping', '-n', '-q', '-c', String(MANY), '-i', '0.01', '-s', String(SIZE), '10.0.0.2')
  await node.agent.restart()
  const after = await fresh(tenants[0], CARRIED * 2)
  t.ok(after < CARRIED * 2 + 20_000, `${after}: what went on without an agent counts, once`)
})
