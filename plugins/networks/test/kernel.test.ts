/** Networks on the real kernel: what was asked for is there, and gone when it is deleted. What packets meet is tested elsewhere. */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { workloadNode } from '../../../test/workload.ts'
import type { Endpoint, Network } from '../schemas.ts'
import { held } from './held.ts'

const P = '/api/v1'
const MACHINES = '/control/v1/compute/machines'

if (requireRoot(t)) run()

function run() {
  t.test('net-40 net-49 routed-18 what is asked for is there, survives the agent, and goes', async (t) => {
    const node = await workloadNode(t, { config: { uplink: 'lo' } })
    const create = async (fields: object) => (await node.ok('POST', `${P}/networks`, fields)).network as Network
    const nothing = { addresses: [], routes: [], neighbours: [], snat: [], inside: [], uplinks: ['"lo"'] }
    t.same(held(node), nothing)

    const lab = await create({ name: 'lab', cidr: '10.0.0.0/24', gateway: '10.0.0.1', snat: true })
    const next = await create({ name: 'next', cidr: '10.0.1.0/24', gateway: '10.0.1.1', host_gateway: true })
    await node.ok('POST', `${P}/routed-addresses`, { cidr: '8.8.4.0/30' })
    const both = { ...nothing, addresses: ['10.0.0.1/24', '10.0.1.1/24'], snat: ['10.0.0.0/24'] }
    t.same(held(node), { ...both, inside: ['10.0.0.0/24', '10.0.1.0/24', '8.8.4.0/30'] })
    const { tenant } = (await node.ok('POST', `${P}/tenant`, { name: 'other' })) as { tenant: { id: string } }
    const wide = await create({ name: 'wide', cidr: '10.0.0.0/16', tenant_id: tenant.id })
    t.same(held(node).inside, ['10.0.0.0/16', '8.8.4.0/30'], 'one set element takes the place of two')

    const { nic } = (await node.ok('POST', MACHINES, { machine: 'vm', network: 'lab', public_ip: 'auto' })) as {
      nic: { endpoint_id: string }
    }
    await node.ok('POST', MACHINES, { machine: 'vm', public_ip: '8.8.4.2', mac: '02:00:00:00:00:07' })
    const used = {
      ...both,
      addresses: [...both.addresses, '169.254.0.1/32'],
      inside: ['10.0.0.0/16', '8.8.4.0/30'],
      routes: ['8.8.4.0', '8.8.4.2'],
    }
    t.same(held(node), { ...used, neighbours: ['8.8.4.0 02:ce:0a:00:00:02', '8.8.4.2 02:00:00:00:00:07'] })
    await node.ok('PUT', `${P}/networks/${lab.id}/endpoints/${nic.endpoint_id}/mac`, { mac: '02:00:00:00:00:08' })
    const moved = { ...used, neighbours: ['8.8.4.0 02:00:00:00:00:08', '8.8.4.2 02:00:00:00:00:07'] }
    t.same(held(node), moved)

    await node.agent.kill('SIGKILL')
    t.same(held(node), moved, 'without the agent')
    const lines = node.agent.logged.length
    await node.agent.restart()
    t.same(held(node), moved)
    const repairs = node.agent.logged.slice(lines).filter(({ added, changed, removed }) => added || changed || removed)
    t.same(repairs, [], 'the next agent finds everything as it shall be')

    await node.ok('DELETE', `${MACHINES}/vm`)
    t.same(held(node), { ...both, inside: ['10.0.0.0/16', '8.8.4.0/30'] })
    for (const { id } of [wide, next]) await node.ok('DELETE', `${P}/networks/${id}`)
    t.same(held(node).inside, ['10.0.0.0/24', '8.8.4.0/30'])
    await node.ok('DELETE', `${P}/networks/${lab.id}/host-gateway`)
    t.same(held(node), { ...nothing, inside: ['10.0.0.0/24', '8.8.4.0/30'] })
    await node.ok('DELETE', `${P}/networks/${lab.id}`)
    await node.ok('DELETE', `${P}/routed-addresses/8.8.4.0-30`)
    t.same(held(node), nothing)
    const endpoints = (await node.ok('GET', `${P}/networks`)).networks as Endpoint[]
    t.same(endpoints, [])
  })
}
