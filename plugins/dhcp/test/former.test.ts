/** Guests that have lost their address: the client of each hears so when it renews. */
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { type RealClient, udhcpc } from '../../../responder/dhcp/test/real-clients.ts'
import { requireRoot, type Scope } from '../../../test/netns.ts'
import { endResponder } from '../../../test/responder.ts'
import { type Guest, workloadNode } from '../../../test/workload.ts'
import type { Lease } from '../schemas.ts'

requireRoot(t)

const OWN = '02:00:00:00:00:0a'
const DEFAULT = '02:ce:0a:00:00:06'
const node = await workloadNode(t)
const { network } = await node.ok('POST', '/api/v1/networks', {
  ...{ name: 'one', cidr: '10.0.0.0/24', gateway: '10.0.0.1', dhcp: true },
})
const { id } = network as { id: string }

async function attach(ip: string, mac?: string): Promise<string> {
  const { endpoint } = await node.ok('POST', `/api/v1/networks/${id}/attach`, { ip, ...(mac && { mac }) })
  return `/api/v1/networks/${id}/endpoints/${(endpoint as { id: string }).id}`
}

async function state(mac: string, wanted: Lease['state']): Promise<void> {
  const signal = AbortSignal.timeout(10_000)
  for (;;) {
    const all = (await node.ok('GET', '/api/v1/dhcp/leases')).leases as Lease[]
    if (all.some((lease) => lease.mac === mac && lease.state === wanted)) return
    signal.throwIfAborted()
    await delay(20)
  }
}

const [own, other] = [node.guest('a', { mac: OWN }), node.guest('b', { mac: DEFAULT })]
await node.guarded(own, other)
const refused = async (client: RealClient) => {
  client.child.kill('SIGUSR1')
  await client.reached('nak')
  client.child.kill('SIGKILL')
}

async function leased(t: Scope & { ok(value: unknown, name: string): unknown }, guest: Guest): Promise<RealClient> {
  const client = udhcpc(t, guest.ns, { ends: false })
  await client.reached('bound')
  t.ok(guest.reaches('10.0.0.1'), 'it knows the MAC of the gateway')
  return client
}

for (const [name, guest, ip, mac] of [
  ['of its own', own, '10.0.0.5', OWN],
  ['by its address', other, '10.0.0.6', DEFAULT],
] as const) {
  t.test(`dhcp-05 a detached MAC ${name} is refused when it renews, and reaches nothing else`, async (t) => {
    const endpoint = await attach(ip, name === 'of its own' ? mac : undefined)
    const client = await leased(t, guest)
    await node.ok('POST', `${endpoint}/detach`)
    await state(mac, 'revoked')
    await node.open(guest)
    t.notOk(guest.pings('10.0.0.1'))
    await refused(client)
    t.equal(client.told('nak')?.message, 'the address is not yours any more')
  })
}

t.test(
  'dhcp-05 the same after a restart of the agent, with the responder started anew, and open ports open',
  async (t) => {
    const endpoint = await attach('10.0.0.5', OWN)
    const client = await leased(t, own)
    await node.ok('POST', `${endpoint}/detach`)
    await state(OWN, 'revoked')
    await node.open(own)
    await node.agent.kill('SIGKILL')
    await endResponder(join(dirname(node.agent.socket), 'responder.sock'))
    await node.agent.restart()
    await node.ok('PUT', '/control/v1/config/open_ports', { value: 'open' })
    await refused(client)
  },
)
