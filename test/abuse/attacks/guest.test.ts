/** Every frame of the table, sent by a guest on a real port, and looked for at everybody else. */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { frame, type Tap, tap } from '../../frames.ts'
import { requireRoot } from '../../netns.ts'
import { type Guest, type WorkloadNode, workloadNode } from '../../workload.ts'
import { bound, unbound } from './guest.ts'
import type { Addresses, Frames } from './table.ts'

interface World {
  node: WorkloadNode
  addresses: Addresses
  /** Bound in one network: the attacker and its neighbour; bound in another tenant's; attached to nothing, twice. */
  taps: Record<'attacker' | 'neighbour' | 'stranger' | 'open' | 'bystander', Tap>
  guests: Record<'attacker' | 'neighbour' | 'stranger' | 'open' | 'bystander', Guest>
}

async function world(t: Parameters<typeof workloadNode>[0]): Promise<World> {
  const node = await workloadNode(t, { config: { api_rate_burst: '1000' } })
  const names = ['attacker', 'neighbour', 'stranger', 'open', 'bystander'] as const
  const guests = Object.fromEntries(names.map((name) => [name, node.guest(name[0] ?? '')])) as World['guests']
  await node.guarded(...Object.values(guests))
  const tenant = async (name: string) =>
    ((await node.ok('POST', '/api/v1/tenant', { name })).tenant as { id: string }).id
  const network = async (name: string, cidr: string, gateway: string) => {
    const body = { name, cidr, gateway, host_gateway: true, dhcp: true, tenant_id: await tenant(name) }
    return ((await node.ok('POST', '/api/v1/networks', body)).network as { id: string }).id
  }
  const [one, two] = [await network('one', '10.1.0.0/24', '10.1.0.1'), await network('two', '10.2.0.0/24', '10.2.0.1')]
  const attach = async (id: string, guest: Guest, ip: string) => {
    const { endpoint } = await node.ok('POST', `/api/v1/networks/${id}/attach`, { ip })
    const { mac } = endpoint as { mac: string }
    guest.setMac(mac)
    guest.ns.run('ip', 'address', 'add', `${ip}/24`, 'dev', 'eth0')
    return { mac, ip }
  }
  const { mac, ip } = await attach(one, guests.attacker, '10.1.0.11')
  const neighbour = await attach(one, guests.neighbour, '10.1.0.12')
  const stranger = await attach(two, guests.stranger, '10.2.0.11')
  await node.inNetwork(guests.attacker, guests.neighbour, guests.stranger)
  const [bridge] = JSON.parse(node.ns.run('ip', '-j', 'link', 'show', 'br-work')) as { address: string }[]
  return {
    node,
    guests,
    addresses: { mac, ip, neighbour, stranger, node: { mac: bridge?.address ?? '', gateway: '10.1.0.1' } },
    taps: Object.fromEntries(names.map((name) => [name, tap(t, guests[name].ns)])) as World['taps'],
  }
}

/**
 * Sends a row's frames, and a frame that passes behind them; says who saw one of the row. A mark behind the packet tells a
 * frame whose tags the capture has taken off; br_netfilter cuts off what is behind a packet, and leaves the rest as it was.
 */
async function seenBy(from: Tap, fenceAt: Tap, all: Record<string, Tap>, frames: readonly Buffer[]): Promise<string[]> {
  const [mark, fence] = [randomBytes(12), randomBytes(12)]
  for (const one of Object.values(all)) one.seen()
  for (const one of frames) from.send(Buffer.concat([one, mark]))
  from.send(frame({ from: from.mac }, fence))
  const seen = new Set<string>()
  const signal = AbortSignal.timeout(10_000)
  for (let done = false; !done; ) {
    if (signal.aborted) throw new Error('the frame behind the attack did not arrive')
    for (const [name, it] of Object.entries(all)) {
      for (const one of it.seen()) {
        if (one.includes(mark) || frames.some((sent) => sent.equals(one))) seen.add(name)
        if (it === fenceAt && one.includes(fence)) done = true
      }
    }
    await new Promise((wait) => setTimeout(wait, 1))
  }
  return [...seen].sort()
}

async function tryAll(
  t: { same(a: unknown, b: unknown, what: string): unknown },
  rows: readonly Frames[],
  { from, near, others, addresses }: { from: Tap; near: Tap; others: Record<string, Tap>; addresses: Addresses },
): Promise<void> {
  for (const { what, frames, expected } of rows) {
    const seen = await seenBy(from, near, { near, ...others }, frames(addresses))
    t.same(seen, expected === 'nobody' ? [] : ['near'], `${what}: seen by ${expected}`)
  }
}

t.test('net-27 net-28 what a guest sends reaches whom it may reach, and nobody else', async (t) => {
  if (!requireRoot(t)) return
  const { taps, addresses, guests, node } = await world(t)
  const { attacker, neighbour, stranger, open, bystander } = taps
  const others = { stranger, open, bystander }
  await t.test('a guest of a network', (t) => tryAll(t, bound, { from: attacker, near: neighbour, others, addresses }))
  await t.test('a guest that is attached to nothing', async (t) => {
    const rows = { from: open, near: bystander, others: { neighbour, stranger, attacker } }
    await tryAll(t, unbound, { ...rows, addresses: { ...addresses, mac: open.mac, ip: '192.0.2.9' } })
  })
  t.ok(guests.attacker.reaches(addresses.neighbour.ip), 'and those who keep to the rules are served')
  t.ok(guests.neighbour.reaches(addresses.node.gateway))
  await node.open(guests.open, guests.bystander)
})
