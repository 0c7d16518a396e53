/** What becomes of a lease (D52): what the responder tells, what time and operators do. */
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { KernelRefusal, UncertainOutcome } from '../../../dataplane/plane.ts'
import { dhcpArea, MAC, OTHER, P, START } from './area.ts'

const DAY = 86_400_000

t.test('dhcp-01 dhcp-02 dhcp-04 a lease that is granted is listed', async (t) => {
  const area = await dhcpArea(t)
  t.same((await area.call('GET', `${P}/dhcp/leases`)).body, { leases: [] })
  const network = await area.create()
  await area.attach(network, '10.0.0.5')
  await area.hear()
  const expires_at = START / 1000 + 3600
  t.same(await area.leases(), [
    { id: 1, mac: MAC, ip: '10.0.0.5', state: 'active', hostname: 'web', expires_at, network_id: network },
  ])
  t.same(area.events(), ['lease.created'])
  area.clock.now += 1_800_000
  await area.hear()
  t.match(await area.leases(), [{ id: 1, expires_at: expires_at + 1800 }], 'renewed')
  t.same(area.events(), [], 'which is no event')
  area.clock.now += 1000
  await area.hear({ hostname: 'db' })
  t.match(await area.leases(), [{ id: 1, hostname: 'db' }])
  t.same(area.events(), ['lease.updated'])
})

t.test('state-12 dhcp-03 dhcp-07 a lease expires, and becomes active by a new grant', async (t) => {
  const area = await dhcpArea(t)
  const network = await area.create()
  await area.attach(network, '10.0.0.5')
  await area.attach(network, '10.0.0.6', OTHER)
  await area.hear()
  await area.hear({ address: '10.0.0.6', mac: OTHER, expiresAt: START / 1000 + 60 })
  const ips = async (query: string) => (await area.leases(query)).map(({ ip }) => ip)
  const all = async () => [await ips('?state=active'), await ips('?state=expired'), await ips('?state=revoked')]
  t.same(await all(), [['10.0.0.5', '10.0.0.6'], [], []])
  area.events()
  area.clock.now += 60_000
  t.same(await all(), [['10.0.0.5'], ['10.0.0.6'], []], 'to the second, whatever has been written by then')
  await until(() => area.events().includes('lease.state_changed active expired'))
  t.same(await all(), [['10.0.0.5'], ['10.0.0.6'], []])
  await area.hear({ address: '10.0.0.6', mac: OTHER })
  t.same(area.events(), ['lease.state_changed expired active'])
  t.same(await all(), [['10.0.0.5', '10.0.0.6'], [], []])
  t.equal((await area.leases()).length, 2, 'the same lease')
  await area.hear({ state: 'revoked', at: area.clock.now + 1 })
  t.same(area.events(), ['lease.state_changed active revoked'], 'given back by its client')
  t.same(await all(), [['10.0.0.6'], [], ['10.0.0.5']])
  await area.hear({ at: area.clock.now + 2 })
  t.same(area.events(), ['lease.state_changed revoked active'])
  t.equal((await area.call('GET', `${P}/dhcp/leases?state=gone`)).status, 400)
})

t.test('state-12 a detach revokes the lease; one that is taken back does not', async (t) => {
  const area = await dhcpArea(t)
  const network = await area.create()
  const endpoint = await area.attach(network, '10.0.0.5')
  await area.hear()
  area.events()
  // What the responder tells when the change that it took over is undone after all.
  await area.hear({ state: 'revoked', unbound: true, at: START + 5 })
  t.same([area.events(), (await area.leases())[0]?.state], [[], 'active'])
  await area.detach(network, endpoint)
  t.equal(area.bindings().size, 0)
  await area.hear({ state: 'revoked', unbound: true, at: START + 6 })
  t.same([area.events(), (await area.leases())[0]?.state], [['lease.state_changed active revoked'], 'revoked'])
  await area.hear({ at: START + 7 })
  t.same([area.events(), (await area.leases())[0]?.state], [[], 'revoked'], 'a grant from before the detach')
})

t.test('the address of another MAC: the old lease ends with the grant of the new one', async (t) => {
  const area = await dhcpArea(t)
  const network = await area.create()
  const endpoint = await area.attach(network, '10.0.0.5')
  await area.hear()
  await area.ok('PUT', `${P}/networks/${network}/endpoints/${endpoint}/mac`, { mac: OTHER })
  t.match([...area.bindings()], [['1/10.0.0.5', { mac: OTHER }]])
  area.events()
  // Of one address only the newest is told to an agent that was away.
  await area.hear({ mac: OTHER, at: START + 1 })
  t.same(area.events(), ['lease.state_changed active revoked', 'lease.created'])
  t.match(await area.leases(), [
    { id: 1, mac: MAC, state: 'revoked' },
    { id: 2, mac: OTHER, state: 'active' },
  ])
})

t.test('what is told twice or late changes nothing', async (t) => {
  const area = await dhcpArea(t)
  await area.attach(await area.create(), '10.0.0.5')
  await area.hear({ at: START + 10 })
  area.events()
  await area.hear({ state: 'revoked', at: START + 9 })
  await area.hear({ at: START + 10, hostname: 'x' })
  await area.hear({ net: 77, at: START + 20 })
  await area.hear({ address: '10.0.0.77', at: START + 20 })
  await area.hear({ mac: OTHER, at: START + 20 })
  t.same(area.events(), [])
  t.match(await area.leases(), [{ state: 'active', hostname: 'web' }])
})

t.test('many are written at once, and what could not be written is written later', async (t) => {
  const area = await dhcpArea(t)
  const network = await area.create()
  for (let n = 5; n < 25; n++)
    await area.attach(network, `10.0.0.${n}`, `02:00:00:00:00:${n.toString(16).padStart(2, '0')}`)
  const event = (n: number) => ({
    ...{ net: 1, mac: `02:00:00:00:00:${n.toString(16).padStart(2, '0')}`, address: `10.0.0.${n}`, hostname: '' },
    ...{ state: 'active' as const, expiresAt: START / 1000 + 60, at: START },
  })
  // The pipeline fails before any rule: as when the disk is full.
  const { mutate } = area.agent.pipeline
  let failures = 0
  area.agent.pipeline.mutate = async () => {
    failures++
    throw new Error('made up')
  }
  const stored = area.plane.tell(...Array.from({ length: 20 }, (_, n) => event(n + 5)))
  await until(() => failures === 1)
  area.agent.pipeline.mutate = mutate
  t.equal((await area.leases()).length, 0)
  await stored
  t.equal((await area.leases()).length, 20)
  t.equal(area.events().length, 20)
  t.ok(area.logged.some(({ msg }) => msg === 'leases could not be stored; this is tried again'))
})

t.test('dhcp-08 leases survive a restart; those whose binding went away meanwhile end', async (t) => {
  const area = await dhcpArea(t)
  const network = await area.create()
  await area.attach(network, '10.0.0.5')
  await area.attach(network, '10.0.0.6', OTHER)
  await area.hear()
  await area.hear({ address: '10.0.0.6', mac: OTHER })
  const before = await area.leases()
  const { stateDir, plane } = area
  await area.agent.close()
  const again = await dhcpArea(t, { stateDir, plane })
  t.same(await again.leases(), before)
  const { endpoints } = await again.ok('GET', `${P}/networks/${network}/endpoints?mac=${OTHER}`)
  await again.detach(network, (endpoints as { id: string }[])[0]?.id ?? '')
  await again.agent.close()
  const third = await dhcpArea(t, { stateDir, plane })
  await until(async () => (await third.leases('?state=revoked')).length === 1)
  t.match(await third.leases(), [
    { ip: '10.0.0.5', state: 'active' },
    { ip: '10.0.0.6', state: 'revoked' },
  ])
})

t.test('D52 leases that ended are kept for a week', async (t) => {
  const area = await dhcpArea(t)
  const network = await area.create()
  const endpoint = await area.attach(network, '10.0.0.5')
  await area.hear()
  await area.ctl('dhcp release n1 10.0.0.5')
  t.equal(area.bindings().get('1/10.0.0.5')?.endedAt, START)
  area.clock.now += 7 * DAY - 1000
  await delay(1200)
  t.equal((await area.leases()).length, 1)
  area.events()
  area.clock.now += 1000
  await until(() => area.events().includes('lease.deleted'))
  t.same(await area.leases(), [])
  t.equal(area.bindings().get('1/10.0.0.5')?.endedAt, undefined)
  await area.detach(network, endpoint)
  await area.ok('DELETE', `${P}/networks/${network}`)
  t.same([area.networks().size, area.bindings().size], [0, 0])
})

t.test('dhcp-06 release: the lease is revoked, and renewing it refused, once the command has answered', async (t) => {
  const area = await dhcpArea(t)
  await area.attach(await area.create(), '10.0.0.5')
  await area.hear()
  area.events()
  area.clock.now += 1000
  for (const [line, err] of [
    ['dhcp release n1 10.0.0.6', /10\.0\.0\.6 has no active lease/],
    ['dhcp release n1 02:00:00:00:00:99', /has no active lease/],
    ['dhcp release n1 nonsense', /nonsense has no active lease/],
    ['dhcp release nowhere 10.0.0.5', /network nowhere not found/],
  ] as const)
    t.match(await area.ctl(line), { code: 1, err }, line)
  area.plane.refuse = new KernelRefusal('made up')
  t.match(await area.ctl('dhcp release n1 10.0.0.5'), { code: 1, err: /made up/ })
  area.plane.refuse = new UncertainOutcome('made up')
  t.match(await area.ctl('dhcp release n1 10.0.0.5'), { code: 1 })
  t.same([area.events(), (await area.leases())[0]?.state], [[], 'active'], 'a refusal changes nothing')
  t.match(await area.ctl(`dhcp release n1 ${MAC.toUpperCase()}`), { code: 0, out: `lease 10.0.0.5 of ${MAC} ended\n` })
  t.same(area.events(), ['lease.state_changed active revoked'])
  t.equal(area.bindings().get('1/10.0.0.5')?.endedAt, START + 1000)
  await area.hear({ at: START + 500 })
  t.equal((await area.leases())[0]?.state, 'revoked', 'a grant from before')
  await area.hear({ at: START + 2000 })
  t.equal((await area.leases())[0]?.state, 'active')
  t.equal(area.bindings().get('1/10.0.0.5')?.endedAt, undefined, 'a new grant may be renewed')
  for (const method of ['POST', 'DELETE', 'PUT'])
    t.equal((await area.call(method, `${P}/dhcp/leases/1`)).status, 404, 'not by REST')
})

t.test('a MAC with leases in several networks is released in one of them', async (t) => {
  const area = await dhcpArea(t)
  const [one, two] = [await area.create(), await area.create({ cidr: '10.2.0.0/24', gateway: '10.2.0.1' })]
  await area.attach(one, '10.0.0.5')
  await area.attach(two, '10.2.0.5')
  await area.hear()
  await area.hear({ net: 2, address: '10.2.0.5' })
  const several = await area.control('POST', '/control/v1/dhcp/releases', { which: MAC })
  t.match([several.status, several.body.error], [409, new RegExp(`several networks \\(${one}, ${two}\\)`)])
  t.match(await area.ctl(`dhcp release n2 ${MAC}`), { code: 0, out: /^lease 10\.2\.0\.5/ })
  t.match(await area.ctl('dhcp leases'), {
    out: new RegExp(`\\n1 +${one} +10.0.0.5 +${MAC} +active +web +2030-01-01T01:00:00Z\\n2 `),
  })
  t.match(await area.ctl('dhcp leases revoked'), { out: /^ID.*\n2 [^\n]*\n$/ })
  t.match(await area.ctl('dhcp leases expired'), { out: 'no leases\n' })
  t.match(await area.ctl('dhcp leases gone'), { code: 1, err: /must be/ })
})

async function until(is: () => boolean | Promise<boolean>): Promise<void> {
  const signal = AbortSignal.timeout(30_000)
  while (!(await is())) await delay(10, undefined, { signal })
}
