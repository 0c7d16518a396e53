/** Guests with real clients, the agent, the responder, and the programs of br-work between: whose a request is, the kernel says. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { dhclient, udhcpc } from '../../../responder/dhcp/test/real-clients.ts'
import { scratch } from '../../../test/build.ts'
import { requireRoot, type Scope } from '../../../test/netns.ts'
import { type Guest, workloadNode } from '../../../test/workload.ts'
import type { Lease } from '../schemas.ts'

requireRoot(t)

const [A, B, C] = ['02:00:00:00:00:0a', '02:00:00:00:00:0b', '02:00:00:00:00:0c']
const node = await workloadNode(t)

async function create(name: string, cidr: string, gateway: string, more: object = { dhcp: true }): Promise<string> {
  const { network } = await node.ok('POST', '/api/v1/networks', { name, cidr, gateway, ...more })
  return (network as { id: string }).id
}
async function attach(id: string, ip: string, mac: string): Promise<string> {
  const { endpoint } = await node.ok('POST', `/api/v1/networks/${id}/attach`, { ip, mac })
  return `/api/v1/networks/${id}/endpoints/${(endpoint as { id: string }).id}`
}
const client = ({ ns }: Guest) => udhcpc(t, ns)

/** Resolves once each address has a lease in its state. */
async function leases(...wanted: string[]): Promise<void> {
  const signal = AbortSignal.timeout(30_000)
  for (;;) {
    const all = (await node.ok('GET', '/api/v1/dhcp/leases')).leases as Lease[]
    const seen = all.map(({ ip, mac, state }) => `${ip} ${mac} ${state}`)
    if (wanted.every((one) => seen.includes(one))) return
    if (signal.aborted) throw new Error(`${seen.join(', ')}, not ${wanted.join(', ')}`)
    await delay(20)
  }
}

const [first, second] = [await create('one', '10.0.0.0/24', '10.0.0.1'), await create('two', '10.2.0.0/24', '10.2.0.1')]
const [a, b, c] = [node.guest('a', { mac: A }), node.guest('b', { mac: B }), node.guest('c', { mac: C })]
await node.guarded(a, b, c)
const ofA = await attach(first, '10.0.0.5', A)

t.test('dhcp-04 net-42 guests of two networks get their addresses, and can use them', async (t) => {
  await attach(second, '10.2.0.6', B)
  const renewing = udhcpc(t, a.ns, { ends: false })
  t.match(await renewing.reached('bound'), { ip: '10.0.0.5', subnet: '255.255.255.0', router: '10.0.0.1' })
  const listed = (await node.ok('GET', '/api/v1/dhcp/leases')).leases
  t.match(listed, [{ ip: '10.0.0.5', mac: A, state: 'active' }], 'listed when the client is told')
  t.match(await dhclient(t, b.ns, scratch(t)).reached('BOUND'), { new_ip_address: '10.2.0.6' })
  t.ok(a.reaches('10.0.0.1'), 'the gateway answers to the address')
  await leases(`10.0.0.5 ${A} active`, `10.2.0.6 ${B} active`)
  t.equal(await client(c).ended(), 1, 'nobody who is not bound is answered')
  renewing.child.kill('SIGUSR1')
  await renewing.reached('renew')
  renewing.child.kill('SIGUSR2')
  await leases(`10.0.0.5 ${A} revoked`)
})

t.test('machines with the same MAC in two networks get the address of their own', async (t) => {
  const mac = '02:00:00:00:00:0d'
  const [x, y] = [node.guest('x', { mac }), node.guest('y', { mac })]
  await node.guarded(x, y)
  for (const [machine, network, ip, { port }] of [
    ['x', 'one', '10.0.0.20', x],
    ['y', 'two', '10.2.0.20', y],
  ] as const) {
    await node.ok('POST', '/control/v1/compute/machines', { machine, network, ip, mac, port })
  }
  t.match(await client(y).reached('bound'), { ip: '10.2.0.20', serverid: '10.2.0.1', hostname: 'y' })
  t.match(await client(x).reached('bound'), { ip: '10.0.0.20', serverid: '10.0.0.1', hostname: 'x' })
})

t.test(
  'dhcp-06 state-12 a MAC that is bound anew is served at once; a lease that was released is refused',
  async (t) => {
    const guest = node.guest('m', { mac: '02:00:00:00:00:2a' })
    await node.guarded(guest)
    const endpoint = await attach(first, '10.0.0.40', '02:00:00:00:00:2a')
    t.match(await client(guest).reached('bound'), { ip: '10.0.0.40' })
    await leases('10.0.0.40 02:00:00:00:00:2a active')
    await node.ok('PUT', `${endpoint}/mac`, { mac: '02:00:00:00:00:2b' })
    t.equal(await client(guest).ended(), 1, 'the old MAC')
    guest.setMac('02:00:00:00:00:2b')
    const renewing = udhcpc(t, guest.ns, { ends: false })
    t.match(await renewing.reached('bound'), { ip: '10.0.0.40' })
    await leases('10.0.0.40 02:00:00:00:00:2a revoked', '10.0.0.40 02:00:00:00:00:2b active')
    await node.ok('POST', '/control/v1/dhcp/releases', { which: '10.0.0.40' })
    renewing.child.kill('SIGUSR1')
    await renewing.reached('nak')
    await leases('10.0.0.40 02:00:00:00:00:2b active')
    renewing.child.kill('SIGKILL')
    await node.ok('POST', `${endpoint}/detach`)
    await leases('10.0.0.40 02:00:00:00:00:2b revoked')
  },
)

t.test('D71 a default deny spares requests to the node, and nothing without the failsafes', async (t) => {
  await node.ok('PUT', '/api/v1/rules/default', { default_action: 'deny' })
  const renewing = udhcpc(t, a.ns, { ends: false })
  t.match(await renewing.reached('bound'), { ip: '10.0.0.5' })
  renewing.child.kill('SIGUSR1')
  await renewing.reached('renew')
  renewing.child.kill('SIGKILL')
  await node.ok('PUT', '/control/v1/config/firewall_failsafe', { value: 'off' })
  t.equal(await client(a).ended(), 1, 'control: it was the failsafes')
  await node.ok('PUT', '/control/v1/config/firewall_failsafe', { value: 'on' })
  await node.ok('PUT', '/api/v1/rules/default', { default_action: 'allow' })
})

t.test(
  'dhcp-08 promise 2: with the agent killed clients go on being answered, and it is told when it is back',
  async (t) => {
    await node.ok('POST', '/control/v1/dhcp/releases', { which: '10.0.0.5' })
    await leases(`10.0.0.5 ${A} revoked`, `10.2.0.6 ${B} active`)
    await node.agent.kill('SIGKILL')
    t.match(await client(a).reached('bound'), { ip: '10.0.0.5' })
    await node.agent.restart()
    await leases(`10.0.0.5 ${A} active`, `10.2.0.6 ${B} active`)
  },
)

t.test('no machine serves DHCP in a network that the node serves', async (t) => {
  const plain = await create('plain', '10.4.0.0/24', '10.4.0.1', {})
  const [rogue, guest] = [node.guest('r', { mac: '02:00:00:00:00:1a' }), node.guest('s', { mac: '02:00:00:00:00:1b' })]
  await node.guarded(rogue, guest)
  await attach(plain, '10.4.0.5', '02:00:00:00:00:1a')
  await attach(plain, '10.4.0.6', '02:00:00:00:00:1b')
  serveAsMachine(t, rogue, '10.4.0.5', '10.4.0.6')
  t.match(await client(guest).reached('bound'), { ip: '10.4.0.6' }, 'control: elsewhere whoever wants to may')
  await attach(first, '10.0.0.30', C)
  serveAsMachine(t, c, '10.0.0.30', '10.0.0.6')
  t.match(await client(a).reached('bound'), { ip: '10.0.0.5', serverid: '10.0.0.1' })
  await node.ok('PUT', `/api/v1/networks/${first}/host-gateway`, { snat: false })
  t.match(await client(a).reached('bound'), { serverid: '10.0.0.30' }, 'net-46 nor any more once the option is gone')
  await node.ok('POST', `${ofA}/detach`)
})

/** A DHCP server in a guest, with one address to give. */
function serveAsMachine(t: Scope, { ns }: Guest, own: string, given: string): void {
  const dir = scratch(t, 'udhcpd')
  const file = join(dir, 'conf')
  ns.run('ip', 'address', 'replace', `${own}/24`, 'dev', 'eth0')
  const lines = [`start ${given}`, `end ${given}`, 'interface eth0']
  const files = [`lease_file ${join(dir, 'leases')}`, `pidfile ${join(dir, 'pid')}`]
  writeFileSync(join(dir, 'leases'), '')
  writeFileSync(file, `${[...lines, ...files].join('\n')}\nopt subnet 255.255.255.0\n`)
  ns.spawn('busybox', ['udhcpd', '-f', file], { stdio: 'ignore' })
}
