import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import t from 'tap'
import { type Netns, netns, requireRoot, type Scope, veth } from '../../../test/netns.ts'
import { NETLINK_NETFILTER } from '../bind.ts'
import { deleteConntrack, listConntrack } from '../conntrack.ts'
import { type Conntrack, encodeFilter } from '../ctnetlink.ts'
import { netlinkIn } from './open.ts'

requireRoot(t)

const ICMP = 1
const TCP = 6
const UDP = 17
const ICMPV6 = 58
const SEEN_REPLY = 2
const ASSURED = 4

/** Prints its ports, then echoes whatever comes over TCP and UDP, IPv4 and IPv6. */
const SERVER = `
  const tcp = require('net').createServer((peer) => peer.pipe(peer).on('error', () => {}))
  const udp = require('dgram').createSocket('udp6')
  udp.on('message', (data, peer) => udp.send(data, peer.port, peer.address))
  udp.bind(0, '::', () => tcp.listen(0, '::', () => console.log(tcp.address().port + ' ' + udp.address().port)))
`

/** Prints the local port once the first echo is back, then sends at every signal and prints "echo" for the answer. */
const TCP_CLIENT = `
  const [host, port] = process.argv.slice(1)
  const peer = require('net').connect(Number(port), host, () => peer.write('x'))
  peer.once('data', () => {
    peer.on('data', () => console.log('echo'))
    process.on('SIGUSR2', () => peer.write('x'))
    console.log(peer.localPort)
  })
`

const UDP_CLIENT = `
  const [host, port, version] = process.argv.slice(1)
  const peer = require('dgram').createSocket('udp' + version)
  peer.on('message', () => console.log(peer.address().port))
  peer.send('x', Number(port), host)
`

async function nextLine(child: ChildProcess): Promise<string> {
  const signal = AbortSignal.timeout(20_000)
  const [data] = child.stdout ? await once(child.stdout, 'data', { signal }) : []
  return String(data).trim()
}

function node(ns: Netns, script: string, ...args: unknown[]): ChildProcess {
  return ns.spawn(process.execPath, ['-e', script, ...args.map(String)])
}

/** A client and a server namespace; connections are tracked in the server's, where a rule asks for their state. */
async function site(t: Scope) {
  const client = netns(t, 'c')
  const server = netns(t, 's')
  veth(
    t,
    { ns: client, name: 'stc', addr: ['10.1.0.1/24', '10.1.0.3/24', 'fd01::1/64'] },
    { ns: server, name: 'sts', addr: ['10.1.0.2/24', 'fd01::2/64'] },
  )
  // Else conntrack takes a retransmission of the server for the beginning of a new connection.
  server.run('sysctl', '-q', 'net.netfilter.nf_conntrack_tcp_loose=0')
  server.run(
    'nft',
    'add table inet t; add counter inet t invalid; add chain inet t c { type filter hook prerouting priority 0; };' +
      'add rule inet t c ct state invalid counter name invalid drop',
  )
  const [tcp = 0, udp = 0] = (await nextLine(node(server, SERVER))).split(' ').map(Number)
  return { client, server, tcp, udp, netlink: netlinkIn(t, server, NETLINK_NETFILTER) }
}

t.test('TCP, UDP and ICMP connections of both versions are listed', async (t) => {
  const { client, tcp, udp, netlink } = await site(t)
  const sport4 = Number(await nextLine(node(client, TCP_CLIENT, '10.1.0.2', tcp)))
  const sport6 = Number(await nextLine(node(client, TCP_CLIENT, 'fd01::2', tcp)))
  const uport4 = Number(await nextLine(node(client, UDP_CLIENT, '10.1.0.2', udp, 4)))
  const uport6 = Number(await nextLine(node(client, UDP_CLIENT, 'fd01::2', udp, 6)))
  client.run('ping', '-c1', '-W5', '10.1.0.2')
  client.run('ping', '-c1', '-W5', 'fd01::2')

  const all = await listConntrack(netlink)
  const four = { version: 4, src: '10.1.0.1', dst: '10.1.0.2' }
  const six = { version: 6, src: 'fd01::1', dst: 'fd01::2' }
  const tracked = (version: number, proto: number) =>
    all.filter((entry) => entry.version === version && entry.proto === proto)
  t.match(tracked(4, TCP), [
    {
      ...four,
      sport: sport4,
      dport: tcp,
      reply: { src: '10.1.0.2', dst: '10.1.0.1', sport: tcp, dport: sport4 },
      mark: 0,
    },
  ])
  t.match(tracked(6, TCP), [{ ...six, sport: sport6, dport: tcp }])
  t.match(tracked(4, UDP), [{ ...four, sport: uport4, dport: udp }])
  t.match(tracked(6, UDP), [{ ...six, sport: uport6, dport: udp }])
  t.match(tracked(4, ICMP), [{ ...four, icmp: { type: 8, code: 0 }, sport: undefined, zone: undefined }])
  t.match(
    tracked(6, ICMPV6).filter(({ icmp }) => icmp?.type === 128),
    [{ ...six, icmp: { type: 128, code: 0 } }],
  )
  t.ok((tracked(4, TCP)[0]?.status ?? 0) & SEEN_REPLY)
  t.ok((tracked(4, TCP)[0]?.status ?? 0) & ASSURED)
  t.equal(new Set(all.map(({ id }) => id)).size, all.length, 'ids are unique')
})

t.test('a filter selects by exact values, in the kernel where it can be trusted', async (t) => {
  const { client, tcp, netlink } = await site(t)
  const port = async (host: string) => Number(await nextLine(node(client, TCP_CLIENT, host, tcp)))
  const first = await port('10.1.0.2')
  const second = await port('10.1.0.2')
  const ports4 = [first, second]
  const port6 = await port('fd01::2')
  client.run('ping', '-c1', '-W5', '-I', '10.1.0.3', '10.1.0.2')

  const sports = async (filter: Parameters<typeof listConntrack>[1]) =>
    (await listConntrack(netlink, filter)).map(({ sport }) => sport ?? 0).sort((a, b) => a - b)
  const sorted = ports4.toSorted((a, b) => a - b)
  t.same(await sports({ filter: { src: '10.1.0.1' } }), sorted)
  t.same(await sports({ filter: { dst: '10.1.0.2', proto: TCP } }), sorted)
  t.same(await sports({ filter: { dst: '10.1.0.2', proto: TCP, sport: second, dport: tcp } }), [second])
  t.same(await sports({ filter: { src: '10.1.0.3' } }), [0])
  t.same(await sports({ filter: { src: '10.1.0.9' } }), [])
  t.same(await sports({ version: 4, filter: { proto: TCP } }), sorted)
  t.same(
    await sports({ filter: { proto: TCP, dport: tcp } }),
    [...ports4, port6].sort((a, b) => a - b),
  )
  t.same(
    await sports({ filter: { dport: tcp } }),
    [...ports4, port6].sort((a, b) => a - b),
  )
  t.same(await sports({ filter: { dst: 'FD01::0002', proto: TCP } }), [port6], 'not the inverse, as the kernel has it')
  t.same(await sports({ filter: { dst: 'fd01::9', proto: TCP } }), [])
  t.same(await sports({ filter: { proto: TCP }, where: ({ version }) => version === 6 }), [port6])
  t.same(await sports({ version: 6, filter: { src: '10.1.0.1' } }), [])

  const sent = { messages: 0 }
  const payload = encodeFilter(4, { dst: '10.1.0.2', proto: TCP, sport: first })
  await netlink.dump(0x101, payload ?? Buffer.alloc(4), () => void sent.messages++)
  t.equal(sent.messages, 1, 'the kernel itself left out the rest')
})

t.test('exactly the entries given are deleted, and what is gone is no error', async (t) => {
  const { client, tcp, udp, netlink } = await site(t)
  const kept = Number(await nextLine(node(client, TCP_CLIENT, '10.1.0.2', tcp)))
  for (const host of ['10.1.0.2', 'fd01::2']) {
    await nextLine(node(client, TCP_CLIENT, host, tcp))
    await nextLine(node(client, UDP_CLIENT, host, udp, host.includes(':') ? 6 : 4))
    client.run('ping', '-c1', '-W5', host)
  }
  const doomed = await listConntrack(netlink, { where: ({ sport }) => sport !== kept })
  t.ok(doomed.length >= 6)
  t.equal(await deleteConntrack(netlink, doomed), doomed.length)
  t.equal(await deleteConntrack(netlink, doomed), 0)

  const left = await listConntrack(netlink, { filter: { proto: TCP } })
  t.match(left, [{ sport: kept }])
  const [entry] = left
  const other: Conntrack[] = entry ? [{ ...entry, id: (entry.id ^ 1) >>> 0 }] : []
  t.equal(await deleteConntrack(netlink, other), 0, 'the same addresses with another id are another connection')
  t.equal((await listConntrack(netlink, { filter: { proto: TCP } })).length, 1)
  t.equal(await deleteConntrack(netlink, left), 1)
  t.same(await listConntrack(netlink, { filter: { proto: TCP } }), [])
})

t.test('an evicted connection is judged like a new one', async (t) => {
  const { client, server, tcp, netlink } = await site(t)
  const dropped = () => Number(/packets (\d+)/.exec(server.run('nft', 'list', 'counter', 'inet', 't', 'invalid'))?.[1])
  const process = node(client, TCP_CLIENT, '10.1.0.2', tcp)
  const sport = Number(await nextLine(process))
  process.kill('SIGUSR2')
  t.equal(await nextLine(process), 'echo', 'established')
  t.equal(dropped(), 0)

  const heard: string[] = []
  process.stdout?.on('data', (data) => heard.push(String(data)))
  const entries = await listConntrack(netlink, { filter: { src: '10.1.0.1', proto: TCP, sport } })
  t.equal(await deleteConntrack(netlink, entries), 1)
  process.kill('SIGUSR2')
  // The client repeats what is not acknowledged: first and second attempt meet the rule.
  const deadline = Date.now() + 20_000
  while (dropped() < 2 && Date.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 20))
  t.ok(dropped() >= 2)
  t.same(heard, [])
  t.same(await listConntrack(netlink, { filter: { proto: TCP } }), [])
})

t.test('connections of a zone are listed and deleted with it', async (t) => {
  const { client, server, tcp, netlink } = await site(t)
  server.run(
    'nft',
    'add chain inet t z { type filter hook prerouting priority -300; }; add rule inet t z ct zone set 7;' +
      'add chain inet t y { type filter hook output priority -300; }; add rule inet t y ct zone set 7',
  )
  await nextLine(node(client, TCP_CLIENT, '10.1.0.2', tcp))
  const entries = await listConntrack(netlink, { filter: { proto: TCP } })
  t.match(entries, [{ zone: 7, zoneDirection: undefined }])
  t.equal(await deleteConntrack(netlink, entries), 1)

  server.run(
    'nft',
    'flush chain inet t z; flush chain inet t y;' +
      'add rule inet t z ct original zone set 9; add rule inet t y ct original zone set 9',
  )
  await nextLine(node(client, TCP_CLIENT, '10.1.0.2', tcp))
  const directed = await listConntrack(netlink, { filter: { proto: TCP } })
  t.match(directed, [{ zone: 9, zoneDirection: 'original' }])
  t.equal(await deleteConntrack(netlink, directed), 1)
})
