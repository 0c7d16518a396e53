/**
 * What a connection costs by the load balancer and by others, client and server included: direct routing, ours, nft DNAT,
 * HAProxy and nginx, each in its turn within every round. A connection is a GET whose answer the server ends. CPU time is
 * that of all processes, in which is what the kernel does in their place; where several share two cores it tells the
 * ways apart, and connections a second hardly do.
 */
import { execFileSync } from 'node:child_process'
import {
  closeSync,
  ftruncateSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openAttaching } from '../../dataplane/bpf/attach/attaching.ts'
import { ensureBpffs } from '../../dataplane/bpf/bpffs.ts'
import { openClassifier } from '../../dataplane/bpf/firewall/open.ts'
import type { VipEntry } from '../../dataplane/bpf/lb/entries.ts'
import { openBalancer } from '../../dataplane/bpf/lb/open.ts'
import { NETLINK_ROUTE } from '../../dataplane/netlink/bind.ts'
import { openNetlink } from '../../dataplane/netlink/socket.ts'
import { type Netns, netns, type Scope } from '../netns.ts'
import { quantile, type Report } from './figure.ts'

const ROUNDS = 7
const SECONDS = 1
const PARALLEL = 64
const STREAMS = 4
const BIG_BYTES = 64 << 20
const VIP = '203.0.113.10'
const BACKENDS = [11, 12, 13, 14].map((last) => `10.9.0.${last}`)

/**
 * Ways by their frontend ports. Each has a port of its own at the backends: two ways to one port would meet each other's
 * connections that have just ended.
 */
const WAYS = { direct: 8000, ours: 8001, nft: 8002, haproxy: 8003, nginx: 8004 } as const
type Way = keyof typeof WAYS
const NAMES = Object.keys(WAYS) as Way[]

const run = (line: string, input?: string) =>
  execFileSync(line.split(' ')[0] ?? '', line.split(' ').slice(1), {
    encoding: 'utf8',
    stdio: ['pipe', 'pipe', 'pipe'],
    ...(input !== undefined && { input }),
  })

interface Site {
  client: Netns
  dir: string
  /** Main processes of servers and proxies. */
  pids: number[]
}

export async function lbPeers(report: Report): Promise<void> {
  const ends: (() => unknown)[] = []
  const scope = { teardown: (end: () => unknown) => void ends.push(end) } as unknown as Scope
  const dir = mkdtempSync(join(tmpdir(), 'stratum-bench-'))
  const root = mkdtempSync(join(tmpdir(), 'stratum-bench-bpf-'))
  ensureBpffs(root)
  const onProblem = (error: unknown) => {
    throw error
  }
  const route = openNetlink(NETLINK_ROUTE)
  const classifier = await openClassifier({ root, onProblem })
  try {
    const site = await build(scope, dir)
    await classifier.defaults.apply([{ after: { kind: 'filter_default', key: 'firewall/default', accept: true } }])
    const { driver } = await openBalancer({ root, route, attaching: await openAttaching({ onProblem }), onProblem })
    ends.push(() => driver.close())
    await driver.apply([{ after: vip() }])
    await measure(site, report)
  } finally {
    for (const end of ends.reverse()) await end()
    await classifier.close()
    await route.close()
    for (const name of ['lb', 'firewall']) rmSync(join(root, name), { recursive: true, force: true })
    run(`umount ${root}`)
    rmdirSync(root)
    rmSync(dir, { recursive: true, force: true })
  }
}

const vip = (): VipEntry => ({
  kind: 'vip',
  key: 'lb/vip/ours',
  id: 'ours',
  address: VIP,
  port: WAYS.ours,
  protocol: 'tcp',
  algorithm: 'round-robin',
  dsr: false,
  backends: BACKENDS.map((address) => ({ id: address, address, port: WAYS.ours, weight: 1, state: 'up' })),
})

/** Client, this node, and a machine with the backends' addresses. */
async function build(scope: Scope, dir: string): Promise<Site> {
  const [client, server] = [netns(scope, 'c'), netns(scope, 's')]
  run(`ip link add up0 type veth peer name eth0 netns ${client.name}`)
  run(`ip link add br-work type veth peer name eth0 netns ${server.name}`)
  run('ip address add 198.51.100.1/24 dev up0')
  run('ip address add 10.9.0.1/24 dev br-work')
  run(`ip address add ${VIP}/32 dev lo`)
  for (const name of ['up0', 'br-work']) run(`ip link set ${name} up`)
  for (const [ns, addresses, gateway] of [
    [client, ['198.51.100.2'], '198.51.100.1'],
    [server, BACKENDS, '10.9.0.1'],
  ] as const) {
    for (const address of addresses) ns.run('ip', 'address', 'add', `${address}/24`, 'dev', 'eth0')
    ns.run('ip', 'link', 'set', 'eth0', 'up')
    ns.run('ip', 'route', 'add', 'default', 'via', gateway)
  }
  run('sysctl -qw net.ipv4.ip_forward=1')
  for (const ns of [client, server])
    ns.run('ping', '-qc', '1', '-i', '0.2', '-w', '20', ns === client ? '198.51.100.1' : '10.9.0.1')
  closeAfter(openSync(join(dir, 'big'), 'w'), BIG_BYTES)
  writeFileSync(join(dir, 'once.lua'), ONCE)
  const ports = NAMES.map((name) => `listen ${WAYS[name]} reuseport backlog=4096;`).join(' ')
  const http = `http { access_log off; lingering_close off; keepalive_timeout 0; sendfile on; server { ${ports} root ${dir}; location = / { return 204; } } }`
  const servers = BACKENDS.map((address) => `server ${address}:${WAYS.nginx};`).join(' ')
  const stream = `stream { upstream b { ${servers} } server { listen ${VIP}:${WAYS.nginx} reuseport backlog=4096; proxy_pass b; } }`
  const module = 'load_module /usr/lib/nginx/modules/ngx_stream_module.so;'
  const pids = [nginx(server, dir, 'server', http), nginx(undefined, dir, 'proxy', stream, module), haproxy(dir)]
  return { client, dir, pids: await Promise.all(pids.map((start) => start(scope))) }
}

function closeAfter(fd: number, bytes: number): void {
  ftruncateSync(fd, bytes)
  closeSync(fd)
}

type Start = (scope: Scope) => Promise<number>

function nginx(ns: Netns | undefined, dir: string, name: string, what: string, module = ''): Start {
  const file = join(dir, `${name}.conf`)
  const base = `${module} pid ${dir}/${name}.pid; worker_processes 2; daemon on; error_log ${dir}/${name}.log; worker_rlimit_nofile 20000; user root;`
  writeFileSync(file, `${base} events { worker_connections 8192; } ${what}\n`)
  return launched(ns, ['nginx', '-c', file, '-p', dir], join(dir, `${name}.pid`))
}

function haproxy(dir: string): Start {
  const file = join(dir, 'haproxy.cfg')
  const servers = BACKENDS.map((address, n) => `  server s${n} ${address}:${WAYS.haproxy}`).join('\n')
  writeFileSync(
    file,
    `global
  nbthread 2
  maxconn 8000
defaults
  mode tcp
  timeout connect 5s
  timeout client 30s
  timeout server 30s
listen b
  bind ${VIP}:${WAYS.haproxy} backlog 4096
  balance roundrobin
${servers}
`,
  )
  return launched(undefined, ['haproxy', '-D', '-f', file, '-p', join(dir, 'haproxy.pid')], join(dir, 'haproxy.pid'))
}

/** Starts what goes into the background by itself, and resolves to its process once that listens. */
function launched(ns: Netns | undefined, [command = '', ...args]: string[], pidFile: string): Start {
  return async (scope) => {
    if (ns) ns.run(command, ...args)
    else execFileSync(command, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    const pid = Number(readFileSync(pidFile, 'utf8').trim())
    scope.teardown(() => {
      for (const one of tree(pid)) {
        try {
          process.kill(one, 'SIGKILL')
        } catch {
          // Went with its parent.
        }
      }
    })
    return pid
  }
}

/** A process and its children. */
function tree(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()
  return [pid, ...(children === '' ? [] : children.split(' ').map(Number))]
}

/** CPU time of all threads so far, in ns (kernel's Documentation/scheduler/sched-stats.rst). */
function spent(pids: readonly number[]): number {
  let sum = 0
  for (const pid of pids.flatMap(tree)) {
    for (const task of readdirSync(`/proc/${pid}/task`)) {
      sum += Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0])
    }
  }
  return sum
}

const ONCE = `done = function(summary)
  local e = summary.errors
  io.write(string.format("done %d %d %d %d\\n", summary.requests, summary.bytes, summary.duration, e.connect + e.read + e.status + e.timeout))
end
`

interface Load {
  requests: number
  bytes: number
  seconds: number
  cpuNs: number
}

/** wrk in the place of the client, with what the shell says of its CPU time. */
function load({ client, dir, pids }: Site, way: Way, path: string, parallel: number): Load {
  const address = way === 'direct' ? (BACKENDS[0] ?? '') : VIP
  const wrk = `wrk -t 2 -c ${parallel} -d ${SECONDS}s -H 'Connection: close' -s ${dir}/once.lua http://${address}:${WAYS[way]}${path}`
  const before = spent(pids)
  const output = client.run('bash', '-c', `TIMEFORMAT='cpu %U %S'; { time ${wrk} ; } 2>&1`)
  const cpu = spent(pids) - before
  const [, requests = '0', bytes = '0', us = '1'] = /done (\d+) (\d+) (\d+)/.exec(output) ?? []
  const [, user = '0', system = '0'] = /cpu ([\d.]+) ([\d.]+)/.exec(output) ?? []
  if (Number(bytes) === 0) throw new Error(`${way}: ${output}`)
  return {
    requests: Number(requests),
    bytes: Number(bytes),
    seconds: Number(us) / 1e6,
    cpuNs: cpu + (Number(user) + Number(system)) * 1e9,
  }
}

/** nft's rules are there only in its turn: with them the kernel tracks the connections of every way. */
function during<T>(way: Way, work: () => T): T {
  if (way !== 'nft') return work()
  const map = BACKENDS.map((address, n) => `${n} : ${address}`).join(', ')
  const rule = `ip daddr ${VIP} tcp dport ${WAYS.nft} dnat to numgen random mod ${BACKENDS.length} map { ${map} }`
  run('nft -f -', `table ip bench {\nchain pre {\ntype nat hook prerouting priority -100\n${rule}\n}\n}\n`)
  try {
    return work()
  } finally {
    run('nft delete table ip bench')
  }
}

async function measure(site: Site, report: Report): Promise<void> {
  const loads = Object.fromEntries(NAMES.map((way) => [way, { connections: [] as Load[], bulk: [] as Load[] }]))
  for (let round = -1; round < ROUNDS; round++) {
    for (const way of NAMES) {
      const connections = during(way, () => load(site, way, '/', PARALLEL))
      const bulk = during(way, () => load(site, way, '/big', STREAMS))
      // The first round only warms up.
      if (round < 0) continue
      loads[way]?.connections.push(connections)
      loads[way]?.bulk.push(bulk)
    }
  }
  const median = (way: Way, kind: 'connections' | 'bulk', of: (one: Load) => number) =>
    quantile((loads[way]?.[kind] ?? []).map(of), 0.5)
  const cpu = (way: Way) => median(way, 'connections', (it) => it.cpuNs / it.requests / 1000)
  const rate = (way: Way) => median(way, 'connections', (it) => it.requests / it.seconds)
  const bulk = (way: Way) => median(way, 'bulk', (it) => (it.bytes * 8) / it.seconds / 1e9)
  const bulkCpu = (way: Way) => median(way, 'bulk', (it) => it.cpuNs / it.bytes)
  const note = `median of ${ROUNDS} rounds, client and server included`
  for (const way of NAMES) report({ figure: `${way}_cpu_per_connection`, value: cpu(way), unit: 'us', note })
  for (const way of NAMES) report({ figure: `${way}_connections`, value: rate(way), unit: '1/s' })
  for (const way of NAMES) report({ figure: `${way}_bulk`, value: bulk(way), unit: 'Gbit/s' })
  for (const way of NAMES) report({ figure: `${way}_bulk_cpu`, value: bulkCpu(way) * 1000, unit: 'ms/GB' })
  const more = (way: Way) => cpu(way) - cpu('direct')
  report({ figure: 'ours_over_direct', value: more('ours'), unit: 'us', goal: 5 })
  for (const [way, share] of [
    ['nft', 1 / 3],
    ['haproxy', 1 / 12],
  ] as const) {
    report({
      figure: `ours_of_${way}`,
      value: more('ours') / more(way),
      unit: '',
      goal: Number(share.toFixed(3)),
      note: 'of what each adds to direct routing',
    })
  }
  const higher = (figure: string, value: number, goal: number) =>
    report({ figure, value, unit: '', goal, better: 'higher' })
  for (const way of ['haproxy', 'nginx'] as const) higher(`connections_over_${way}`, rate('ours') / rate(way), 1.5)
  higher('connections_over_direct', rate('ours') / rate('direct'), 1)
  higher('bulk_over_direct', bulk('ours') / bulk('direct'), 1)
  higher('bulk_over_haproxy', bulk('ours') / bulk('haproxy'), 2)
  higher('bulk_per_cpu_over_direct', bulkCpu('direct') / bulkCpu('ours'), 1)
  higher('bulk_per_cpu_over_haproxy', bulkCpu('haproxy') / bulkCpu('ours'), 2)
}
