/**
 * What a frame costs from one workload to another, by CPU time of the sender: over a bare bridge, over br-work with its
 * programs, redirect and gate, and over a bridge where an nft set proves the sender. Three nodes, interleaved rounds.
 */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openAttaching } from '../../dataplane/bpf/attach/attaching.ts'
import { ensureBpffs } from '../../dataplane/bpf/bpffs.ts'
import { binding, net } from '../../dataplane/bpf/port/entries.ts'
import { openPorts } from '../../dataplane/bpf/port/open.ts'
import { ethernet, ipv4, TYPE, udp } from '../../dataplane/bpf/port/test/packet.ts'
import { NETLINK_ROUTE } from '../../dataplane/netlink/bind.ts'
import { openNetlink } from '../../dataplane/netlink/socket.ts'
import { openNft } from '../../dataplane/nft/session.ts'
import { type Netns, netns, netnsNamed, type Scope } from '../netns.ts'
import { quantile, type Report } from './figure.ts'

const ROUNDS = 11
const FRAMES = 60_000
const TCP_ROUNDS = 5
const TCP_MS = 400
const ENDS = [
  { name: 'tap0', mac: '02:ce:0a:00:00:01', address: '10.0.0.1' },
  { name: 'tap1', mac: '02:ce:0a:00:00:02', address: '10.0.0.2' },
] as const
const OWNERS = { net: 'networks', binding: 'networks' }

interface Lane {
  name: string
  ends: readonly [Netns, Netns]
}

export async function portEnd(report: Report): Promise<void> {
  const undo: (() => unknown)[] = []
  const scope: Scope = { teardown: (one: () => unknown) => void undo.push(one) }
  try {
    const lanes = [bare(scope), await programs(scope), spoofSet(scope)]
    await frames(lanes, report)
    await tcp(lanes, report)
  } finally {
    for (const one of undo.reverse()) await one()
  }
}

/** A bridge and two workloads on it. */
function bridged(scope: Scope, node: Netns, name: string, bridge: string): Lane {
  for (const kind of ['iptables', 'ip6tables', 'arptables']) {
    node.run('sysctl', '-qw', `net.bridge.bridge-nf-call-${kind}=0`)
  }
  node.run('ip', 'link', 'add', bridge, 'up', 'type', 'bridge', 'mcast_snooping', '0')
  const end = ({ name, mac, address }: (typeof ENDS)[number]) => {
    const ns = netns(scope, name)
    ns.run('sysctl', '-qw', 'net.ipv6.conf.default.disable_ipv6=1')
    node.run(
      'ip',
      'link',
      'add',
      'name',
      name,
      'type',
      'veth',
      'peer',
      'name',
      'eth0',
      'address',
      mac,
      'netns',
      ns.name,
    )
    node.run('ip', 'link', 'set', name, 'up', 'master', bridge)
    ns.run('ip', 'address', 'add', `${address}/24`, 'dev', 'eth0')
    ns.run('ip', 'link', 'set', 'eth0', 'up')
    return ns
  }
  return { name, ends: [end(ENDS[0]), end(ENDS[1])] }
}

const bare = (scope: Scope): Lane => bridged(scope, netns(scope, 'bare'), 'bare_bridge', 'br0')

function spoofSet(scope: Scope): Lane {
  const node = netns(scope, 'set')
  const lane = bridged(scope, node, 'nft_set', 'br0')
  const elements = ENDS.map(({ name, mac, address }) => `"${name}" . ${mac} . ${address}`).join(', ')
  const set = `set known { typeof iifname . ether saddr . ip saddr; elements = { ${elements} }; }`
  const rule = 'ether type ip iifname . ether saddr . ip saddr != @known drop'
  node.run('nft', `table bridge proof { ${set}\n chain in { type filter hook prerouting priority -300; ${rule}; }; }`)
  return lane
}

/** In the namespace of the bench, because programs are attached to devices of the process's own. */
async function programs(scope: Scope): Promise<Lane> {
  const lane = bridged(scope, netnsNamed(scope, `stb${process.ppid}`), 'programs', 'br-work')
  const root = mkdtempSync(join(tmpdir(), 'stratum-bench-'))
  ensureBpffs(root)
  const [route, nft] = [openNetlink(NETLINK_ROUTE), await openNft()]
  const onProblem = (error: unknown) => {
    throw error
  }
  const beside = {
    run: async (lines: readonly string[]) => void (await nft.run(`${lines.join('\n')}\n`)),
    list: (what: string) => nft.run(`list ${what}\n`),
  }
  const attaching = await openAttaching({ onProblem })
  const { driver, ports } = await openPorts({ root, route, nft: beside, attaching, owners: OWNERS, onProblem })
  scope.teardown(async () => {
    await driver.close()
    await route.close()
    await nft.close()
    execFileSync('umount', [root])
    rmdirSync(root)
  })
  await driver.observe([])
  const bindings = ENDS.map(({ name, mac, address }) =>
    binding('networks', { net: 1, address, mac, routed: [], port: name }),
  )
  const lan = net('networks', { net: 1, cidr: '10.0.0.0/24', hostGateway: false })
  await driver.apply([lan, ...bindings].map((after) => ({ after })))
  if (ports.list().filter((port) => port.net === 1).length !== 2) throw new Error('the ports are not guarded')
  return lane
}

async function frames(lanes: readonly Lane[], report: Report): Promise<void> {
  const costs = new Map(lanes.map(({ name }) => [name, [] as number[]]))
  for (let round = -1; round < ROUNDS; round++) {
    for (const lane of lanes) {
      const cost = await sendOver(lane)
      if (round >= 0) costs.get(lane.name)?.push(cost)
    }
  }
  const least = (name: string) => quantile(costs.get(name) ?? [], 0)
  const note = `least of ${ROUNDS}, sender's CPU, 60 bytes`
  for (const { name } of lanes) report({ figure: `frame_${name}`, value: least(name), unit: 'ns', note })
  report({
    figure: 'frame_programs_over_bare',
    value: least('programs') / least('bare_bridge'),
    unit: 'times',
    goal: 1.05,
  })
  report({ figure: 'frame_programs_over_set', value: least('programs') / least('nft_set'), unit: 'times', goal: 1 })
}

/** Nanoseconds a frame; throws unless all arrive. */
async function sendOver({ name, ends: [from, to] }: Lane): Promise<number> {
  const [a, b] = ENDS
  const payload = udp(1, 9, Buffer.alloc(18))
  const frame = ethernet(b.mac, a.mac, TYPE.ipv4, ipv4(a.address, b.address, 17, payload))
  const index = /^([0-9]+):/.exec(from.run('ip', '-o', 'link', 'show', 'eth0'))?.[1] ?? ''
  const before = arrived(to)
  const script = new URL('frames-out.js', import.meta.url).pathname
  const text = await output(from, 'taskset', [
    '-c',
    '0',
    process.execPath,
    script,
    index,
    String(FRAMES),
    frame.toString('hex'),
  ])
  const lost = FRAMES - (arrived(to) - before)
  if (lost > 0) throw new Error(`${name}: ${lost} frames did not arrive`)
  return Number(text)
}

const arrived = (ns: Netns): number =>
  (JSON.parse(ns.run('ip', '-j', '-s', 'link', 'show', 'eth0')) as { stats64: { rx: { packets: number } } }[])[0]
    ?.stats64.rx.packets ?? 0

async function output(ns: Netns, command: string, args: readonly string[]): Promise<string> {
  const child = ns.spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  child.stdout?.on('data', (part: Buffer) => {
    text += part
  })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`${command} ${args[2]} ended with ${code}`)
  return text
}

const SINK = "require('node:net').createServer((c) => c.resume()).listen(9000, () => console.log('listening'))"
const SOURCE = `
const [, address, ms] = process.argv
const bytes = Buffer.alloc(1 << 18)
const c = require('node:net').connect(9000, address, () => {
  const since = performance.now()
  const more = () => { while (c.write(bytes)); }
  c.on('drain', more)
  more()
  setTimeout(() => {
    console.log((c.bytesWritten - c.writableLength) / (performance.now() - since) / 125000)
    process.exit()
  }, Number(ms))
})`

/** Bulk data over one connection, Gbit/s. */
async function tcp(lanes: readonly Lane[], report: Report): Promise<void> {
  for (const { ends } of lanes) {
    const sink = ends[1].spawn(process.execPath, ['-e', SINK])
    if (sink.stdout) await once(sink.stdout, 'data')
  }
  const rates = new Map(lanes.map(({ name }) => [name, [] as number[]]))
  for (let round = 0; round < TCP_ROUNDS; round++) {
    for (const { name, ends } of lanes) {
      const text = await output(ends[0], process.execPath, ['-e', SOURCE, ENDS[1].address, String(TCP_MS)])
      rates.get(name)?.push(Number(text))
    }
  }
  const best = (name: string) => quantile(rates.get(name) ?? [], 1)
  const note = `best of ${TCP_ROUNDS}`
  for (const { name } of lanes) report({ figure: `tcp_${name}`, value: best(name), unit: 'Gbit/s', note })
  const value = best('programs') / best('bare_bridge')
  report({ figure: 'tcp_programs_over_bare', value, unit: 'times', goal: 0.8, better: 'higher' })
}
