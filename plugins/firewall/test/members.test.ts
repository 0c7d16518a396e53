/** On a member of a cluster: rules that would cut off another member are refused. */
import t from 'tap'
import type { Member } from '../../../core/area.ts'
import { requireSparesMembers } from '../members.ts'
import { firewall } from './area.ts'

const calls = { address: '192.0.2.1', ports: [7073, 2480] }
const MEMBERS: Member[] = [
  { id: 'n2', address: '192.0.2.2', calls },
  { id: 'n3', address: 'fd00::3', calls: { ...calls, address: 'fd00::1' } },
]
const ERROR = 'rule would block cluster member n2 (192.0.2.2)'

async function member(t: Parameters<typeof firewall>[0]) {
  const area = await firewall(t)
  area.agent.members.add(() => MEMBERS)
  return area
}

t.test('fw-46 err-04 a drop that could hit what a member sends to the cluster is refused', async (t) => {
  const { call, rules, planned, events } = await member(t)
  const refused = [
    { source_ip: '192.0.2.2' },
    { source_ip: '192.0.2.0/24' },
    { source_ip: '0.0.0.0/0' },
    { source_ip: '192.0.2.2', protocol: 'tcp', dest_port: 7073 },
    { source_ip: '192.0.2.2', dest_port: 7000, dest_port_max: 8000 },
    { source_ip: '192.0.2.2', dest_ip: '192.0.2.0/28', protocol: 'tcp' },
    { source_ip: '192.0.2.2', source_port: 40_000, interface: 'eth0', mac: '02:00:00:00:00:02' },
  ]
  for (const fields of refused) {
    const { status, body } = await call('POST', '/api/v1/rules', { action: 'drop', ...fields })
    t.same([status, body.error], [409, ERROR], JSON.stringify(fields))
  }
  const six = await call('POST', '/api/v1/rules', { action: 'drop', source_ip: 'fd00::/64' })
  t.same([six.status, six.body.error], [409, 'rule would block cluster member n3 (fd00::3)'])
  t.same([await rules(), planned(), events()], [[], [], []], 'nothing of them is there')
})

t.test('fw-46 what cannot hit the cluster is taken', async (t) => {
  const { create, rules } = await member(t)
  const taken = [
    { action: 'accept', source_ip: '192.0.2.2' },
    { action: 'drop', source_ip: '192.0.2.3' },
    { action: 'drop', source_ip: '192.0.2.2', protocol: 'udp' },
    { action: 'drop', source_ip: '192.0.2.2', protocol: 'icmp' },
    { action: 'drop', source_ip: '192.0.2.2', dest_port: 22 },
    { action: 'drop', source_ip: '192.0.2.2', dest_port: 7074, dest_port_max: 8000 },
    { action: 'drop', source_ip: '192.0.2.2', dest_ip: '198.51.100.0/24' },
    // Of no source: what the operator says of everybody.
    { action: 'drop', dest_port: 7073, protocol: 'tcp' },
  ]
  for (const fields of taken) await create(fields)
  t.equal((await rules()).length, taken.length)
})

t.test('fw-47 the same on PUT, and the old rule stays', async (t) => {
  const { create, call, rules } = await member(t)
  const old = await create({ action: 'drop', source_ip: '192.0.2.3' })
  const { status, body } = await call('PUT', `/api/v1/rules/${old.id}`, { action: 'drop', source_ip: '192.0.2.2/31' })
  t.same([status, body.error], [409, ERROR])
  t.same(await rules(), [old])
  t.equal((await call('PUT', '/api/v1/rules/99', { action: 'drop', source_ip: '192.0.2.2' })).status, 404)
  t.equal((await call('PUT', `/api/v1/rules/${old.id}`, { action: 'drop', source_ip: '192.0.2.4' })).status, 200)
})

t.test('fw-42 fw-46 of a batch only those are refused', async (t) => {
  const { call, rules } = await member(t)
  const batch = [
    { action: 'drop', source_ip: '192.0.2.2' },
    { action: 'drop', source_ip: '192.0.2.3' },
  ]
  const { body } = await call('POST', '/api/v1/rules/batch', { rules: batch })
  t.match(body, { status: 'partial', results: [{ index: 0, code: 409, error: ERROR }, { status: 'created' }] })
  t.equal((await rules()).length, 1)
})

t.test('outside a cluster every drop is taken', async (t) => {
  const { create } = await firewall(t)
  await create({ action: 'drop', source_ip: '192.0.2.2' })
  const drop = { action: 'drop', protocol: '', sourceIp: '192.0.2.2', destIp: '', destPort: 0, destPortMax: 0 }
  t.doesNotThrow(() => requireSparesMembers(drop, []))
})
