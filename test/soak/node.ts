/**
 * The node of a soak: the agent in a namespace that can be made anew (a reboot), a client on its uplink, two machines behind
 * br-work, things that are somebody else's beside ours, and streams that are counted.
 */
import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { MAIN, type RunningAgent, startAgent } from '../agent.ts'
import { endFrr } from '../frr.ts'
import { type Netns, netns, netnsNamed, type Scope } from '../netns.ts'
import { endResponder } from '../responder.ts'
import { type Crossed, Crossings } from './crossings.ts'
import { P } from './kind.ts'
import type { Effect } from './model.ts'
import { type Counted, type Route, type Stream, stream } from './streams.ts'
import { otherBuild } from './upgrade.ts'

export const [NODE, CLIENT, VIP] = ['198.51.100.1', '198.51.100.2', '198.51.100.10']
const [FORWARDED, BALANCED, BESIDE, CONNECTED] = [9200, 9100, 9300, 9400]
/** Of the VIP, where a connection is answered with `served`. */
export const TCP_PORT = 81
/** The same, by a backend whose answers no rule admits. */
export const UNRULED_PORT = 82
export const GATEWAY_VIP = '198.51.100.150'
/** A device of somebody else stands where this overlay would be. */
export const TAKEN_VNI = 999
/** Another release's core/main.js, from which the first upgrade leads to this one. */
const { FORMER } = process.env
const counter = { next: 1 }

export interface SoakNode {
  ns: Netns
  /** On the uplink. */
  client: Netns
  agent: RunningAgent
  /** That it is the agent of another release, of FORMER: `upgrade` leads to this one. */
  isFormer(): boolean
  /** What setting up has made, for the model. */
  own: Effect[]
  /** Packets of the streams so far, by their names. */
  counts: Map<string, Counted>
  /** Those of them that were sent while something befell the agent, by what that was. */
  crossed: ReadonlyMap<string, Crossed>
  /** Starts the streams, when all of them can pass. */
  begin(): Promise<void>
  /** Ends them and adds up what was counted. */
  pause(): Promise<void>
  /** Counts what is sent from now on until what it returns is called. */
  cross(what: string): Promise<() => Promise<void>>
  /** Starts another build in the place of the agent, and the first one again the next time. */
  upgrade(): Promise<void>
  /** Ends agent and namespace as a reboot does, and starts both anew. */
  reboot(): Promise<void>
  /** What others have in the kernel, as text. */
  foreign(): string
}

export async function soakNode(t: Scope): Promise<SoakNode> {
  const ns = remade(t)
  const [client, a, b] = [netns(t, 'c'), netns(t, 'a'), netns(t, 'b')]
  const machines: Machine[] = [
    { inner: a, port: 'tapa', ip: '10.20.0.10' },
    { inner: b, port: 'tapb', ip: '10.20.0.11' },
  ]
  furnish(ns, client, machines)
  const config = { gateway_vip: GATEWAY_VIP, dns_listen: NODE, max_events: '5000' }
  const agent = await startAgent(t, { ns, config, ...(FORMER !== undefined && { main: FORMER }) })
  const ok = async (method: string, path: string, body?: unknown) => {
    const answer = await agent.call(method, path, body)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
    return answer.body
  }
  plug(ns, machines)
  const own = await prepare(ok, machines)
  const routes: Route[] = [
    { name: 'VIP', from: client, to: a, address: VIP, port: 80, listen: BALANCED },
    { name: 'forward', from: client, to: b, address: NODE, port: 8000, listen: FORWARDED },
    { name: 'br-work', from: a, to: b, address: machines[1]?.ip ?? '', port: BESIDE, listen: BESIDE },
  ]
  const counts = new Map<string, Counted>(routes.map(({ name }) => [name, { sent: 0, received: 0, doubled: 0 }]))
  let streams: Stream[] = []
  const crossings = new Crossings()
  let former = FORMER !== undefined
  const builds = { next: former ? MAIN : '' }
  const serve =
    "require('node:net').createServer((it) => it.on('error', () => {}).end('served')).listen(Number(process.argv[1]))"
  for (const { inner } of machines) inner.spawn(process.execPath, ['-e', serve, String(CONNECTED)])
  return {
    ns,
    client,
    agent,
    own,
    counts,
    crossed: crossings.crossed,
    cross: (what) => crossings.begin(what, streams),
    isFormer: () => former,
    async upgrade() {
      const next = builds.next || otherBuild(t)
      builds.next = next === MAIN ? '' : MAIN
      await agent.restart({}, next)
      former = false
    },
    async begin() {
      for (const { inner, ip } of machines) reaches(inner, '10.20.0.1', ip)
      reaches(a, machines[1]?.ip ?? '')
      reaches(client, NODE)
      streams = []
      for (const route of routes) streams.push(await stream(route))
    },
    async pause() {
      for (const one of streams) {
        const { sent, received, doubled, missing } = await one.end()
        crossings.ended(one, missing)
        const sum = counts.get(one.name)
        if (sum === undefined) continue
        sum.sent += sent
        sum.received += received
        sum.doubled += doubled
      }
      streams = []
    },
    async reboot() {
      await agent.kill('SIGKILL')
      await endResponder(join(agent.runDir, 'responder.sock'))
      await endFrr(agent.runDir)
      rmSync(`/sys/fs/bpf/${ns.name}`, { recursive: true, force: true })
      execFileSync('ip', ['netns', 'del', ns.name])
      for (const machine of [client, a, b]) await gone(machine)
      make(ns.name)
      furnish(ns, client, machines)
      await agent.restart()
      plug(ns, machines)
    },
    foreign: () => foreign(ns),
  }
}

/** A namespace that is removed at the end, however often it was made anew. */
function remade(t: Scope): Netns {
  const name = `stt${process.pid}soak${counter.next++}`
  make(name)
  t.teardown(() => void execFileSync('ip', ['netns', 'del', name]))
  return netnsNamed(t, name)
}

function make(name: string): void {
  execFileSync('ip', ['netns', 'add', name])
  execFileSync('ip', ['-n', name, 'link', 'set', 'lo', 'up'])
}

/** Its device goes with the namespace of the other end, a moment later. */
async function gone(ns: Netns): Promise<void> {
  const deadline = Date.now() + 20_000
  while (ns.run('ip', '-o', 'link').includes('eth0')) {
    if (Date.now() > deadline) throw new Error(`eth0 of ${ns.name} is still there`)
    await new Promise((wait) => setTimeout(wait, 20))
  }
}

interface Machine {
  inner: Netns
  port: string
  ip: string
  /** The node says which. */
  mac?: string
}

/** The devices that a node has by itself, and what belongs to somebody else. */
function furnish(ns: Netns, client: Netns, machines: readonly Machine[]): void {
  const ip = (line: string) => void ns.run('ip', ...line.split(' '))
  ip(`link add eth0 type veth peer name eth0 netns ${client.name}`)
  ip(`address add ${NODE}/24 dev eth0`)
  ip('link set eth0 up')
  client.run('ip', 'address', 'add', `${CLIENT}/24`, 'dev', 'eth0')
  client.run('ip', 'link', 'set', 'eth0', 'up')
  ip(`route add default via ${CLIENT}`)
  for (const { inner, port, mac } of machines) {
    ip(`link add ${port} type veth peer name eth0 netns ${inner.name}`)
    ip(`link set ${port} up`)
    inner.run('ip', 'link', 'set', 'eth0', 'up', ...(mac ? ['address', mac] : []))
  }
  ip('link add foreign0 type veth peer name foreign1')
  ip('link set foreign0 up')
  ip('link set foreign1 up')
  ip(`link add vx${TAKEN_VNI} type veth peer name foreign2`)
  ip('address add 10.250.0.1/24 dev foreign0')
  ip('address add 198.51.100.240/32 dev eth0')
  ip('route add 10.251.0.0/24 via 10.250.0.2 proto static')
  ip('route add 10.252.0.0/24 via 10.250.0.2 table 100 proto 99')
  ip('rule add from 203.0.114.0/24 lookup 100 priority 11500')
  ip('neigh add 10.250.0.9 lladdr 02:00:00:00:00:99 dev foreign0 nud permanent')
  ns.run('tc', 'qdisc', 'add', 'dev', 'foreign0', 'root', 'handle', '7:', 'htb')
  ns.run(
    'nft',
    'add table inet foreign; add chain inet foreign in { type filter hook input priority 50; }; add rule inet foreign in ip saddr 203.0.114.7 counter drop; add set inet foreign kept { type ipv4_addr; elements = { 203.0.114.8 } }',
  )
}

function foreign(ns: Netns): string {
  // Numbers of devices, counters and MACs that the kernel draws are another's after a reboot.
  const read = (command: string) =>
    ns.run('sh', '-c', command).replaceAll(/^\d+: |link\/ether \S+|direct_packets_stat \d+|refcnt \d+/gm, '')
  return [
    read(`ip -o link show vx${TAKEN_VNI} | sed "s/.*: //"`),
    read(
      'ip -o link show foreign0 | sed "s/.*: //"; ip -o -4 address show foreign0; ip -o address show eth0 | grep 198.51.100.240',
    ),
    read(
      'ip route show proto static; ip route show table 100 proto 99; ip rule show priority 11500; ip neigh show dev foreign0 nud permanent',
    ),
    read('tc qdisc show dev foreign0; nft list table inet foreign'),
  ].join('\n')
}

function plug(ns: Netns, machines: readonly Machine[]): void {
  for (const { port } of machines) ns.run('ip', 'link', 'set', port, 'master', 'br-work')
}

/** Waits until an address answers. */
function reaches(ns: Netns, address: string, from?: string): void {
  if (from !== undefined && !ns.run('ip', '-o', '-4', 'address', 'show', 'eth0').includes(from)) {
    ns.run('ip', 'address', 'add', `${from}/24`, 'dev', 'eth0')
    ns.run('ip', 'route', 'replace', 'default', 'via', address)
  }
  ns.run('ping', '-n', '-q', '-c', '1', '-i', '0.2', '-w', '30', address)
}

type Ok = (method: string, path: string, body?: unknown) => Promise<Record<string, unknown>>

/** Makes what the streams rest on; nothing of it is ever changed. */
async function prepare(ok: Ok, machines: Machine[]): Promise<Effect[]> {
  const id = (of: unknown) => String((of as { id: unknown }).id)
  const created = await ok('POST', `${P}/networks`, {
    name: 'own',
    cidr: '10.20.0.0/24',
    gateway: '10.20.0.1',
    host_gateway: true,
  })
  const network = id(created.network)
  const own: Effect[] = [
    { of: 'networks', name: 'own', id: network, fields: { name: 'own', cidr: '10.20.0.0/24' } },
    { of: 'gateway', name: 'own', id: 'own', fields: { state: 'active' } },
    { of: 'default', name: 'own', id: 'own', fields: { action: 'allow' } },
    { of: 'settings', name: 'own', id: 'own', fields: { bridge_netfilter: 'leave' } },
  ]
  for (const machine of machines) {
    const { inner, port, ip } = machine
    const { nic } = await ok('POST', '/control/v1/compute/machines', { machine: `own${port}`, network, ip, port })
    machine.mac = (nic as { mac: string }).mac
    inner.run('ip', 'link', 'set', 'eth0', 'address', machine.mac)
    own.push({ of: 'machines', name: `own${port}`, id: `own${port}`, fields: {} })
    own.push({ of: 'endpoints', name: `own${port}`, fields: { network: 'own', ip } })
  }
  const admitted = [
    { protocol: 'udp', dest_ip: VIP, dest_port: 80 },
    { protocol: 'tcp', dest_ip: VIP, dest_port: TCP_PORT },
    { protocol: 'tcp', dest_ip: VIP, dest_port: UNRULED_PORT },
    // While bridge_netfilter is on, the default deny drops what backends at open ports answer (plugins/lb/README.md).
    { protocol: 'tcp', source_ip: '10.20.0.10' },
    { protocol: 'udp', dest_ip: NODE, dest_port: 8000 },
    { protocol: 'udp', source_ip: '10.20.0.0/24', dest_ip: '10.20.0.0/24' },
    { protocol: 'icmp' },
  ]
  for (const [n, fields] of admitted.entries()) {
    const rule = { action: 'accept', priority: 1, ...fields }
    own.push({ of: 'rules', name: `own${n}`, id: id((await ok('POST', `${P}/rules`, rule)).rule), fields: rule })
  }
  const balanced = [
    { id: 'own', port: 80, protocol: 'udp', algorithm: 'source-hash', machine: machines[0], to: BALANCED },
    { id: 'owntcp', port: TCP_PORT, protocol: 'tcp', algorithm: 'maglev', machine: machines[0], to: CONNECTED },
    { id: 'ownfree', port: UNRULED_PORT, protocol: 'tcp', algorithm: 'maglev', machine: machines[1], to: CONNECTED },
  ]
  for (const { id, port, machine, to, ...fields } of balanced) {
    await ok('POST', `${P}/lb`, { id, frontend_ip: VIP, frontend_port: port, ...fields })
    own.push({ of: 'vips', name: id, id, fields: { frontend_ip: VIP } })
    await ok('POST', `${P}/lb/${id}/backends`, { id: 'own', ip: machine?.ip, port: to })
    const backend = { vip: id, ip: machine?.ip, healthy: true }
    own.push({ of: 'backends', name: id, id: `${id}/own`, fields: backend })
  }
  const forward = { dest_ip: NODE, dest_port: 8000, target_ip: machines[1]?.ip, target_port: FORWARDED }
  own.push({
    of: 'forwards',
    name: 'own',
    id: id((await ok('POST', `${P}/forward`, forward)).port_forward),
    fields: forward,
  })
  return own
}
