/** What machines offer to other areas. */
import t from 'tap'
import { machinesOfTenant } from '../offers.ts'
import { M, machines, NOW, P } from './rig.ts'

t.test(
  'D106 machinesOfTenant: the machines that have something of a tenant, and of each what is the tenant’s',
  async (t) => {
    const { agent, attach, call, control } = await machines(t)
    const add = async (path: string, body: object) => (await call('POST', `${P}${path}`, body)).status
    for (const tenant of ['ten-a', 'ten-b']) {
      t.equal(await add('/networks', { name: tenant, cidr: '10.0.0.0/24', tenant_id: tenant }), 201)
    }
    t.equal(await add('/networks', { name: 'own', cidr: '10.9.0.0/24' }), 201)
    t.equal(await add('/routed-addresses', { cidr: '8.8.4.0/30', tenant_id: 'ten-a' }), 201)
    t.equal(await add('/routed-addresses', { cidr: '8.8.8.0/30' }), 201)
    for (const body of [
      { machine: 'web', network: 'ten-a', public_ip: 'auto' },
      { machine: 'web', network: 'own' },
      { machine: 'db', network: 'ten-b', public_ip: '8.8.8.0' },
      { machine: 'both', network: 'ten-b' },
      { machine: 'both', network: 'ten-a' },
      { machine: 'alone', public_ip: '8.8.4.3' },
      { machine: 'shared', public_ip: '8.8.8.3' },
    ]) {
      t.equal((await attach(body)).status, 200, JSON.stringify(body))
    }
    const held = (tenant: string) =>
      machinesOfTenant(agent.store.read, tenant).map(({ name, networks }) => [
        name,
        networks.map(({ ip, public_ip }) => [ip, public_ip].filter(Boolean).join(' ')),
      ])
    t.same(held('ten-a'), [
      ['alone', ['8.8.4.3']],
      ['both', ['10.0.0.2']],
      ['web', ['10.0.0.1 8.8.4.0']],
    ])
    t.same(held('ten-c'), [])
    await control('DELETE', `${M}/web`)
    t.same(
      held('ten-a').map(([name]) => name),
      ['alone', 'both'],
    )
    t.match(machinesOfTenant(agent.store.read, 'ten-b'), [
      { name: 'both', created_at: NOW },
      { name: 'db', networks: [{ ip: String, public_ip: '8.8.8.0' }] },
    ])
  },
)
