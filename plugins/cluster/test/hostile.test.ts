/** A member in the hands of somebody else, who writes into etcd what no agent does: it can be removed, and nothing of it stays in force. */
import t from 'tap'
import { eventually, standing, succeeded, threeAgents } from '../../../test/cluster.ts'
import { requireRoot } from '../../../test/netns.ts'
import { onward } from '../../../test/onward.ts'
import { isOffline } from './away.ts'
import { askEtcd } from './former-version.ts'
import { newCode } from './given.ts'
import { remove, settled } from './trusted.ts'

const P = '/api/v1'
const SECRET = 'jc-aaaaaaaaaaaa'

requireRoot(t)
const step = onward(t)
const { nodes } = await threeAgents(t)
const [n1, n2, n3] = nodes as [(typeof nodes)[0], (typeof nodes)[0], (typeof nodes)[0]]

const code = (fields: object) =>
  JSON.stringify({
    created_at: '2020-01-01T00:00:00Z',
    expires_at: '9999-01-01T00:00:00Z',
    created_by: 'cli root',
    hash: 'ab'.repeat(32),
    ...fields,
  })
const tenant = { name: 'x', status: 'active', created_at: '', updated_at: '' }

/** What is not what it should be, under every kind of key. */
const written: Record<string, string> = {
  '/m/n3': '{"address":7}',
  '/m/ghost': 'x',
  '/m/%zz': '{',
  '/t/n3': '{"authority":"x","trusts":[],"shows":""}',
  '/t/ghost': '[]',
  '/live/%zz': 'x',
  '/gone/ghost': 'x',
  '/b/192.0.2.1': 'null',
  '/change/n3': '{"origin":7}',
  '/meta/ca': 'x',
  '/meta/lock': 'n3 held without an end',
  '/j/jc-000000000000': 'x',
  [`/j/${SECRET}`]: code({ id: 'jc-111111111111' }),
  '/r/tenants_tenants/t1': 'x',
  '/r/tenants_tenants/t2': JSON.stringify({ ...tenant, id: { of: 'an object' } }),
  '/r/tenants_tenants/t3': JSON.stringify({ ...tenant, id: 't4' }),
  '/r/%zz/1': '{}',
}

step('what a member writes that no agent does holds up nobody', async (t) => {
  askEtcd(n3, '/m/n1', { put: written })
  succeeded(await n1.agent.call('POST', `${P}/tenant`, { name: 'meanwhile' }))
  await eventually('the other has it', async () =>
    (await n2.agent.call('GET', `${P}/tenant`)).text.includes('meanwhile'),
  )
  t.notMatch((await n2.agent.call('GET', `${P}/tenant`)).text, /"t4"|"name":"x"/, 'what is no row is none')
  t.notOk(
    nodes.slice(0, 2).some(({ agent }) => agent.logged.some(({ msg }) => String(msg).includes('could not be'))),
    'nothing failed',
  )
})

step('it can be removed, also while it holds the lock without an end, and its codes are over', async (t) => {
  await n3.agent.kill('SIGKILL')
  await eventually('n3 is away', () => isOffline(n1, n3))
  succeeded(await remove(n1, n3))
  await settled([n1, n2])
  const { body } = await n1.agent.call('GET', `${P}/cluster/join-codes`)
  const good = (body.join_codes as { id: string; state: string }[]).filter(({ state }) => state === 'active')
  t.same(good, [])
  succeeded(await n2.agent.call('POST', `${P}/tenant`, { name: 'afterwards' }))
})

step('who goes on alone has none of the codes of the others', async (t) => {
  await newCode(n2)
  await n2.agent.kill('SIGKILL')
  await eventually('n1 has no majority', async () => (await standing(n1)).leader === '')
  succeeded(await n1.agent.call('POST', '/control/v1/cluster/recover'))
  await eventually('it leads itself', async () => (await standing(n1)).is_leader)
  t.same((await n1.agent.call('GET', `${P}/cluster/join-codes`)).body.join_codes, [])
  succeeded(await n1.agent.call('POST', `${P}/tenant`, { name: 'alone' }))
})
