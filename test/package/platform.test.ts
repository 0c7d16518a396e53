/**
 * What a platform must carry, from the package to its removal, each seen in traffic: a rule drops, DNS answers, BGP speaks with
 * bird, a VIP balances, a guest cannot take another's address; an upgrade keeps it all. The lanes run this on every kernel,
 * userland and Node that is supported.
 */
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { scratch } from '../build.ts'
import { inMachine, PATIENCE } from '../kernel-features.ts'
import { type Netns, netns, requireRoot, type Scope, veth } from '../netns.ts'
import { type Guest, guest } from '../workload.ts'
import { builtPackage, laterPackage } from './built.ts'
import { type Machine, machine } from './machine.ts'

requireRoot(t)

const CLIENT = '10.77.1.2'
const NODE = '10.77.1.1'
const PEER = '10.77.2.2'
const BACKENDS = [PEER, '10.77.2.3']
const VIP = '10.77.9.9'
/** Of the server, and what the rule is about. */
const SHUT = '10.77.2.9'
/** What a guest takes that has another. */
const STOLEN = '10.78.0.99/24'

/** Tells who connects which address of the server was meant. */
const SERVE = `require('node:net').createServer((socket) => socket.on('error', () => {}).end(socket.localAddress))
  .listen(9000, '0.0.0.0', () => console.log('listening'))`
const FETCH = `const [host, port] = process.argv.slice(1)
const socket = require('node:net').connect(Number(port), host)
socket.on('data', (bytes) => process.stdout.write(bytes)).setTimeout(5000, () => socket.destroy(new Error('silence')))`

/** A plain Debian has br_netfilter not loaded, and nothing of ours loads it. Machines for development may have it built in. */
const hasBridgeFilter = () => existsSync('/proc/sys/net/bridge')

interface Site {
  node: Machine
  client: Netns
  guests: readonly [Guest, Guest]
}

/** bird, to which the node is a neighbor. */
function speaker(t: Scope, ns: Netns): void {
  const dir = scratch(t, 'bird')
  const session = `local ${PEER} as 65002; neighbor 10.77.2.1 as 65001; connect retry time 1; ipv4 { import all; export none; };`
  writeFileSync(join(dir, 'conf'), `router id ${PEER};\nprotocol device { }\nprotocol bgp node { ${session} }\n`)
  ns.spawn('bird', ['-f', '-c', join(dir, 'conf'), '-s', join(dir, 'ctl')], { stdio: 'ignore' })
}

/** A node between a client and a server, with two guests. */
async function site(t: Scope): Promise<Site> {
  const node = await machine(t)
  const { ns, ok } = node
  const [client, server] = [netns(t, 'c'), netns(t, 's')]
  veth(t, { ns: client, name: 'eth0', addr: `${CLIENT}/24` }, { ns, name: 'left', addr: `${NODE}/24` })
  const addresses = [...BACKENDS, SHUT].map((address) => `${address}/24`)
  veth(t, { ns: server, name: 'eth0', addr: addresses }, { ns, name: 'right', addr: '10.77.2.1/24' })
  client.run('ip', 'route', 'add', 'default', 'via', NODE)
  server.run('ip', 'route', 'add', 'default', 'via', '10.77.2.1')
  await ok('sh', '-c', 'echo 1 >/proc/sys/net/ipv4/ip_forward')
  speaker(t, server)
  const serving = server.spawn(process.execPath, ['-e', SERVE])
  await new Promise((resolve) => serving.stdout?.once('data', resolve))
  const [a, b] = ['a', 'b'].map((name) => guest(t, ns, name, { plugged: false }))
  if (!a || !b) throw new Error('two guests')
  return { node, client, guests: [a, b] }
}

type Call = (method: string, path: string, body?: object) => Promise<Record<string, unknown>>

/** The API of the node as an operator asks it. @throws Error unless it answers 2xx */
const caller =
  ({ ok }: Machine, token: string): Call =>
  async (method, path, body) => {
    const args = ['-sS', '-k', '-X', method, '-H', `Authorization: Bearer ${token}`, '-w', '\n%{http_code}']
    const json = body ? ['-H', 'Content-Type: application/json', '-d', JSON.stringify(body)] : []
    const [status = '', ...text] = (await ok('curl', ...args, ...json, `https://127.0.0.1:7070/api/v1${path}`))
      .split('\n')
      .reverse()
    if (!status.startsWith('2')) throw new Error(`${method} ${path}: ${status} ${text.join(' ')}`)
    return JSON.parse(text.join('') || '{}')
  }

const pings = (from: Netns, to: string) => {
  try {
    from.run('ping', '-nqc1', '-w5', to)
    return true
  } catch {
    return false
  }
}

/** Stores all of it, as an operator does first on a node. */
async function store({ node: { ok }, guests }: Site, call: Call): Promise<void> {
  await call('POST', '/rules', { action: 'drop', dest_ip: SHUT })
  await call('POST', '/lb', { id: 'web', frontend_ip: VIP, frontend_port: 80, algorithm: 'round-robin' })
  for (const ip of BACKENDS) await call('POST', '/lb/web/backends', { id: ip.replaceAll('.', '-'), ip, port: 9000 })
  const { zone } = (await call('POST', '/dns/zones', { name: 'example.org' })) as { zone: { id: number } }
  await call('POST', '/dns/records', { zone_id: zone.id, name: 'www', type: 'A', value: '192.0.2.80', ttl: 60 })
  await ok('stratumctl', 'config', 'set', 'dns_listen', NODE)
  await call('POST', '/bgp/neighbors', { peer_addr: PEER, peer_as: 65002, local_as: 65001 })
  await call('POST', '/networks', { name: 'lan', cidr: '10.78.0.0/24', gateway: '10.78.0.254' })
  for (const it of guests) {
    it.plug()
    const args = ['machine', 'attach', it.port, '--network', 'lan', '--port', it.port]
    const { nic }: { nic: { ip: string; mac: string } } = JSON.parse(await ok('stratumctl', '--json', ...args))
    it.setMac(nic.mac)
    it.ns.run('ip', 'address', 'add', `${nic.ip}/24`, 'dev', 'eth0')
    it.ns.run('ip', 'address', 'add', STOLEN, 'dev', 'eth0')
  }
}

/** Looks whether it is so, in traffic. */
async function look(t: Test, { client, guests: [a, b] }: Site): Promise<void> {
  t.ok(pings(client, PEER), 'what no rule names is forwarded')
  t.notOk(pings(client, SHUT), 'what the rule names is dropped')
  const answer = client.run('dig', '+short', '+tries=3', '+time=5', `@${NODE}`, 'www.example.org', 'A')
  t.equal(answer.trim(), '192.0.2.80', 'DNS answers')
  const served = Array.from({ length: 8 }, () => client.run(process.execPath, '-e', FETCH, VIP, '80'))
  t.same([...new Set(served)].sort(), BACKENDS, 'the VIP balances over both backends')
  const [, other = ''] = /inet (10\.78\.0\.\d+)\/24/.exec(b.ns.run('ip', 'address', 'show', 'dev', 'eth0')) ?? []
  t.ok(a.reaches(other), 'the guests reach each other')
  t.notOk(a.pings(other, STOLEN.replace(/\/.*/, '')), 'but not by an address that is not theirs')
}

/** Resolves when the session with bird stands. */
async function established(call: Call): Promise<void> {
  const signal = AbortSignal.timeout(60_000 * PATIENCE)
  for (;;) {
    const { neighbors } = (await call('GET', '/bgp/neighbors')) as { neighbors: { state: string }[] }
    if (neighbors[0]?.state === 'Established') return
    signal.throwIfAborted()
    await new Promise((wait) => setTimeout(wait, 100))
  }
}

/** Tables, pinned programs, bridges and folders, a line each. */
const traces = async ({ ok }: Machine): Promise<string[]> => {
  const script = `nft list tables; find /sys/fs/bpf -mindepth 1; ip -o link show type bridge
    ls -d /var/lib/stratum /etc/stratum /usr/lib/stratum-node 2>/dev/null || true`
  return (await ok('sh', '-c', script)).split('\n')
}

t.test('the package is installed, carries, is upgraded, carries on and is removed', async (t) => {
  const file = builtPackage(t)
  const at = await site(t)
  const { ok, processes } = at.node
  const before = await traces(at.node)
  t.ok(pings(at.client, SHUT), 'before, the node is a router as any')
  await ok('dpkg', '--install', file)
  const call = caller(at.node, await ok('stratum-install', 'compute'))
  await store(at, call)
  await established(call)
  t.pass('BGP: the session is established')
  await look(t, at)
  t.comment(await ok('stratumctl', 'service', 'status'))
  t.match(
    (await traces(at.node)).join(),
    /table inet stratum.*,\/sys\/fs\/bpf\/.*br-work.*\/var\/lib\/stratum/,
    'its traces',
  )

  await ok('dpkg', '--install', laterPackage(t, file, 'nat'))
  t.match(await ok('stratumd', '--version'), /\.1$/, 'upgraded')
  await established(call)
  await look(t, at)

  await ok('systemctl', 'stop', 'stratumd.service')
  await ok('stratumctl', 'teardown', '--yes')
  await ok('dpkg', '--purge', 'stratum-node')
  if (inMachine) t.notOk(hasBridgeFilter(), 'all of it without br_netfilter')
  t.same([...(await processes()).values()], [], 'removed: no process is left')
  t.same(await traces(at.node), before, 'nor a table, program, bridge or folder that was not there before')
  t.ok(pings(at.client, SHUT), 'and the node is a router as before')
})
