/** Real clients against the server, over a bridge whose frames are stamped as the programs of br-work stamp theirs. */
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import type { LeaseEvent } from '../../../dataplane/responder/protocol.ts'
import { scratch } from '../../../test/build.ts'
import { here } from '../../../test/inside.ts'
import { type Netns, netns, netnsNamed, requireRoot, type Scope } from '../../../test/netns.ts'
import { type Dhcp, openDhcp, type Passage } from '../server.ts'
import { binding, network } from './client.ts'
import { dhclient, udhcpc } from './real-clients.ts'

requireRoot(t)

const [A, B] = ['02:00:00:00:00:0a', '02:00:00:00:00:0b']
const home = netnsNamed(t, here ?? '')

/** With the address of the server, as networks put it there. */
function bridge(name: string, ...addresses: string[]): void {
  home.run('ip', 'link', 'add', name, 'type', 'bridge')
  home.run('ip', 'link', 'set', name, 'up')
  for (const address of addresses) home.run('ip', 'address', 'add', address, 'dev', name)
}

const counter = { next: 1 }
function guest(t: Scope, to: string, mac: string): Netns {
  const ns = netns(t, 'g')
  const port = `port${counter.next++}`
  home.run('ip', 'link', 'add', port, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', ns.name)
  ns.run('ip', 'link', 'set', 'eth0', 'address', mac, 'up')
  home.run('ip', 'link', 'set', port, 'master', to, 'up')
  return ns
}

interface Server extends Dhcp {
  events: LeaseEvent[]
  serve(...passages: Passage[]): Promise<void>
}

function server(t: Scope, problems: unknown[] = []): Server {
  const events: LeaseEvent[] = []
  const dhcp = openDhcp({
    onLease: (event) => void events.push(event),
    onProblem: (error) => void problems.push(error),
  })
  t.teardown(() => dhcp.close())
  return {
    ...dhcp,
    events,
    async serve(...passages) {
      dhcp.apply(passages)
      await dhcp.applyListeners(passages)
    },
  }
}
const states = ({ events }: Server) => events.map(({ mac, address, state }) => `${mac} ${address} ${state}`)

home.run('sysctl', '-qw', 'net.ipv4.conf.default.rp_filter=1')
bridge('br-test', '10.0.0.1/24', '10.2.0.1/24')
home.run('nft', 'add table inet stamps')
home.run('nft', 'add chain inet stamps stamped { type filter hook prerouting priority raw; }')
home.run('nft', `add rule inet stamps stamped iifname "br-test" ether saddr ${A} meta mark set 0x53000001`)
home.run('nft', `add rule inet stamps stamped iifname "br-test" ether saddr ${B} meta mark set 0x53000002`)

const link = 'br-test'
const [first, second] = [network({ link }), network({ link, net: 2, cidr: '10.2.0.0/24', gateway: '10.2.0.1' })]
const [ofA, ofB] = [binding({ mac: A }), binding({ net: 2, address: '10.2.0.6', mac: B })]

t.test('dhcp-04 udhcpc gets its address from its network, renews it and gives it back', async (t) => {
  const dhcp = server(t)
  await dhcp.serve(
    { after: network({ link, dns: ['9.9.9.9'], domain: 'example.org', mtu: 1400, leaseSeconds: 600 }) },
    { after: second },
    { after: ofA },
    { after: ofB },
  )
  const [a, b] = [guest(t, link, A), guest(t, link, B)]
  const one = udhcpc(t, a, { ends: false, args: ['-x', 'hostname:web1', '-O', 'mtu'] })
  t.match(await one.reached('bound'), {
    ...{ ip: '10.0.0.5', subnet: '255.255.255.0', router: '10.0.0.1', dns: '9.9.9.9', domain: 'example.org' },
    ...{ lease: '600', serverid: '10.0.0.1', mtu: '1400' },
  })
  const other = udhcpc(t, b)
  t.match(await other.reached('bound'), { ip: '10.2.0.6', router: '10.2.0.1' })
  t.equal(await other.ended(), 0)
  t.same(states(dhcp), [`${A} 10.0.0.5 active`, `${B} 10.2.0.6 active`])
  t.equal(dhcp.events[0]?.hostname, 'web1')

  // The address must be there before it can be renewed from, and the second another.
  await delay(1100)
  one.child.kill('SIGUSR1')
  await one.reached('renew')
  t.equal(dhcp.stats().counts.ack, 3)
  t.ok((dhcp.events[2]?.expiresAt ?? 0) > (dhcp.events[0]?.expiresAt ?? 0), 'the lease is longer')
  one.child.kill('SIGUSR2')
  await until(() => dhcp.events.at(-1)?.state === 'revoked')
  t.match(dhcp.stats().counts, { release: 1, unsent: 0, malformed: 0 })
})

t.test('dhcp-04 dhclient gets its address, and asks for the same when it is started again', async (t) => {
  const dhcp = server(t)
  await dhcp.serve({ after: first }, { after: ofA })
  const a = guest(t, link, A)
  const leases = scratch(t, 'dhclient')
  const client = dhclient(t, a, leases)
  t.match(await client.reached('BOUND'), {
    ...{ new_ip_address: '10.0.0.5', new_subnet_mask: '255.255.255.0', new_routers: '10.0.0.1' },
    ...{ new_dhcp_lease_time: '3600', new_broadcast_address: '10.0.0.255', new_dhcp_server_identifier: '10.0.0.1' },
  })
  t.same(states(dhcp), [`${A} 10.0.0.5 active`])
  client.child.kill('SIGKILL')
  await client.ended()
  t.match(await dhclient(t, a, leases).reached('REBOOT'), { new_ip_address: '10.0.0.5' })
  t.match(dhcp.stats().counts, { offer: 1, ack: 2 })
})

t.test('a MAC that is bound gets its address at once, who had it is refused, and others get nothing', async (t) => {
  const dhcp = server(t)
  await dhcp.serve({ after: first }, { after: ofA })
  const a = guest(t, link, A)
  const old = udhcpc(t, a, { ends: false })
  await old.reached('bound')
  const moved = binding({ mac: '02:00:00:00:00:0c' })
  home.run('nft', `add rule inet stamps stamped iifname "br-test" ether saddr ${moved.mac} meta mark set 0x53000001`)
  await dhcp.serve({ before: ofA, after: moved })
  const fresh = udhcpc(t, guest(t, link, moved.mac))
  t.match(await fresh.reached('bound'), { ip: '10.0.0.5' })
  old.child.kill('SIGUSR1')
  await old.reached('nak')
  const foreign = udhcpc(t, guest(t, link, '02:00:00:00:00:0d'))
  t.equal(await foreign.ended(), 1, 'no stamp')
  const unbound = udhcpc(t, guest(t, link, B))
  t.equal(await unbound.ended(), 1, 'the stamp of a network that is not served')
  t.same(states(dhcp), [`${A} 10.0.0.5 active`, `${A} 10.0.0.5 revoked`, `${moved.mac} 10.0.0.5 active`])
})

t.test('only the device of the network is listened on, and by one server', async (t) => {
  bridge('br-other', '10.9.0.1/24')
  const dhcp = server(t)
  await dhcp.serve({ after: first }, { after: ofA })
  t.same(dhcp.stats().links, [link])
  const away = udhcpc(t, guest(t, 'br-other', A))
  t.equal(await away.ended(), 1)
  t.same(
    Object.values(dhcp.stats().counts).every((count) => count === 0),
    true,
    'nothing of it was heard',
  )
  const twice = server(t)
  await t.rejects(twice.serve({ after: first }), {
    message: /^cannot serve DHCP on br-test: UDP port 67 is in use \(is another DHCP server running/,
  })
  await t.rejects(twice.serve({ before: first, after: network({ link: 'nowhere' }) }), {
    message: 'cannot serve DHCP on nowhere: there is no such device',
  })
  t.same(twice.stats().links, [])
  await twice.serve({ before: network({ link: 'nowhere' }), after: network({ link: 'br-other' }) })
  t.same(twice.stats().links, ['br-other'], 'another device is no matter')
  await dhcp.serve({ before: first })
  t.same(dhcp.stats().links, [], 'with the last network of a device its socket is closed')
  t.equal(
    home
      .run('ss', '-Hlun', 'sport = :67')
      .split('\n')
      .filter((line) => line.includes(link)).length,
    0,
  )
})

t.test('a socket that somebody ended is opened again', async (t) => {
  const problems: unknown[] = []
  const dhcp = server(t, problems)
  await dhcp.serve({ after: first }, { after: ofA })
  home.run('ss', '-K', '-u', '-l', '-n', 'sport = :67')
  await until(() => problems.length > 0)
  t.match(problems, [{ message: /^cannot serve DHCP on br-test: / }])
  await until(() => dhcp.stats().links.length === 1)
  t.match(await udhcpc(t, guest(t, link, A)).reached('bound'), { ip: '10.0.0.5' })
})

t.test('a device that is made anew is served again', async (t) => {
  bridge('br-gone', '10.7.0.1/24')
  const dhcp = server(t)
  await dhcp.serve(
    { after: network({ link: 'br-gone', cidr: '10.7.0.0/24', gateway: '10.7.0.1' }) },
    { after: binding({ address: '10.7.0.5', mac: A }) },
  )
  home.run('nft', 'add rule inet stamps stamped iifname "br-gone" meta mark set 0x53000001')
  home.run('ip', 'link', 'del', 'br-gone')
  await until(() => dhcp.stats().links.length === 0)
  bridge('br-gone', '10.7.0.1/24')
  const client = udhcpc(t, guest(t, 'br-gone', A), { ends: false })
  t.match(await client.reached('bound'), { ip: '10.7.0.5' })
})

async function until(is: () => boolean): Promise<void> {
  const signal = AbortSignal.timeout(30_000)
  while (!is()) await delay(10, undefined, { signal })
}
