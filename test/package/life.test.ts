/**
 * The life of an installed node, on a machine without compilers: install, enable, upgrade to a later version, no way back,
 * remove, install again, purge, tear down. Datagrams and connections by a VIP, a port forward, plain forwarding, source NAT and
 * the workload bridge go on all the while. `npm run test:upgrade`: the later version has programs that were compiled otherwise.
 */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { scratch } from '../build.ts'
import { type Netns, netns, requireRoot, type Scope, veth } from '../netns.ts'
import { guest } from '../workload.ts'
import { builtPackage, laterPackage } from './built.ts'
import { type Machine, machine } from './machine.ts'
import { asking, echo, probe, stream } from './traffic.ts'

requireRoot(t)

/** With `PROGRAMS=compiled` those of the kernel compiled otherwise: other instructions, the same maps. */
function objects(t: Scope): Record<string, string> {
  if (process.env.PROGRAMS !== 'compiled') return {}
  const [root, dir] = [join(import.meta.dirname, '../../..'), scratch(t, 'objects')]
  const include = ['-I', 'build/dataplane/bpf/src', '-I', 'dataplane/bpf/src', '-idirafter']
  const flags = [
    '-O3',
    '-g',
    '-target',
    'bpf',
    '-mcpu=v3',
    ...include,
    `/usr/include/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu`,
  ]
  return Object.fromEntries(
    ['port', 'lb', 'firewall'].map((name) => {
      const object = join(dir, `${name}.o`)
      execFileSync('clang', [...flags, '-c', `dataplane/bpf/src/${name}.bpf.c`, '-o', object], { cwd: root })
      return [name, object]
    }),
  )
}

/** What of the kernel shall be after a teardown as it was before the first start. */
const KERNEL = [
  'ip -o link | awk "{print \\$2}" | sort',
  'ip -o address show scope global | awk "{print \\$2, \\$4}" | sort',
  'ip route show table all | grep -v "proto kernel" | sort',
  'ip rule; ip -6 rule',
  'ip neighbour show nud permanent; bridge fdb show | grep -w static || true',
  'nft list ruleset',
  'ls -A /sys/fs/bpf',
  'tc qdisc show | grep -vE "noqueue|fq_codel|pfifo_fast|mq" || true',
  'bpftool net show | grep -vE "^$|^(xdp|tc|flow_dissector|netfilter):" || true',
]

/** Ids of the programs that are attached by links of ours, and of those that the ones on the ports call: these ones stay. */
const PROGRAMS = `{
  bpftool map dump pinned /sys/fs/bpf/stratum/v1/programs
  find /sys/fs/bpf/stratum -path '*/links/*' -type f ! -name '*-ingress' ! -name '*-egress' -exec bpftool link show pinned {} \\;
} | grep -oE '"value": [0-9]+|value: .*|prog [0-9]+' | sort -u`

async function kernelOf({ ok }: Machine): Promise<string[]> {
  const texts: string[] = []
  for (const line of KERNEL) texts.push(`${line}\n${await ok('sh', '-c', line)}`)
  return texts
}

t.test(
  'enable-27 enable-28 upgraded under traffic, removed, back, purged, torn down',
  { timeout: 300_000 },
  async (t) => {
    const file = builtPackage(t)
    const later = laterPackage(t, file, 'nat', objects(t))
    const node = await machine(t)
    const { ns, ok } = node
    const [client, server] = [netns(t, 'c'), netns(t, 's')]
    veth(t, { ns: client, name: 'eth0', addr: '10.77.1.2/24' }, { ns, name: 'left', addr: '10.77.1.1/24' })
    veth(t, { ns: server, name: 'eth0', addr: '10.77.2.2/24' }, { ns, name: 'right', addr: '10.77.2.1/24' })
    client.run('ip', 'route', 'add', 'default', 'via', '10.77.1.1')
    server.run('ip', 'route', 'add', 'default', 'via', '10.77.2.1')
    await ok('sh', '-c', 'echo 1 >/proc/sys/net/ipv4/ip_forward')
    const [a, b] = ['a', 'b'].map((name) => guest(t, ns, name, { plugged: false }))
    if (!a || !b) throw new Error('two guests')
    const before = await kernelOf(node)

    t.match(await ok('dpkg', '--install', file), /not enabled\. Next: stratum-install/)
    t.same([...(await node.processes()).values()], [], 'installing starts nothing')
    const installed = await node.run('stratum-install', 'compute')
    t.equal(installed.status, 0, installed.err)
    const token = installed.out.trim()
    t.match(token, /^nt_[\w-]{43}$/, 'one command enables the node, and shows the token')
    t.match(installed.err, /evaluation licence is installed/)
    const pid = async () => Number(await ok('cat', '/run/stratumd.pid'))
    const call = async (method: string, path: string, body?: object) => {
      const args = ['-sS', '-k', '-X', method, '-H', `Authorization: Bearer ${token}`, '-w', '\n%{http_code}']
      const json = body ? ['-H', 'Content-Type: application/json', '-d', JSON.stringify(body)] : []
      const answer = (await ok('curl', ...args, ...json, `https://127.0.0.1:7070/api/v1${path}`)).split('\n')
      if (!answer.at(-1)?.startsWith('2')) throw new Error(`${method} ${path}: ${answer.join(' ')}`)
    }
    for (const protocol of ['udp', 'tcp']) {
      const vip = { id: protocol, frontend_ip: '10.77.9.9', frontend_port: 5000, protocol, algorithm: 'maglev' }
      await call('POST', '/lb', vip)
      await call('POST', `/lb/${protocol}/backends`, { id: 's', ip: '10.77.2.2', port: 9000 })
    }
    const forward = { dest_ip: '10.77.1.1', dest_port: 6000, target_ip: '10.77.2.2', target_port: 9000 }
    await call('POST', '/forward', forward)
    await ok('stratumctl', 'config', 'set', 'uplink', 'right')
    await call('POST', '/networks', { name: 'lan', cidr: '10.78.0.0/24', gateway: '10.78.0.254', snat: true })
    await call('POST', '/rules', { action: 'drop', source_ip: '198.51.100.0/24' })
    await call('POST', '/routes', { destination: '203.0.113.0/24', gateway: '10.77.2.2' })
    await call('POST', '/dns/zones', { name: 'example.org' })
    await ok('stratumctl', 'config', 'set', 'dns_listen', '10.77.1.1')
    await call('POST', '/bgp/neighbors', { peer_addr: '10.77.2.2', peer_as: 65002, local_as: 65001 })
    for (const it of [a, b]) {
      it.plug()
      const args = ['machine', 'attach', it.port, '--network', 'lan', '--port', it.port]
      const { nic }: { nic: { ip: string; mac: string } } = JSON.parse(await ok('stratumctl', '--json', ...args))
      it.setMac(nic.mac)
      it.ns.run('ip', 'address', 'add', `${nic.ip}/24`, 'dev', 'eth0')
      it.ns.run('ip', 'route', 'add', 'default', 'via', '10.78.0.254')
    }
    const target = /inet ([0-9.]+)\/24/.exec(b.ns.run('ip', 'address', 'show', 'dev', 'eth0'))?.[1] ?? ''
    t.ok(a.reaches(target), 'the guests reach each other')
    const daemons = async (which: RegExp) => [...(await node.processes())].filter(([, args]) => which.test(args)).sort()
    t.equal((await daemons(/responder|frr/)).length, 4, 'the responder and three daemons of FRR run')

    await echo(server, 9000)
    await echo(b.ns, 9000)
    const ways: readonly (readonly [way: string, from: Netns, to: string, port: number])[] = [
      ['VIP', client, '10.77.9.9', 5000],
      ['port forward', client, '10.77.1.1', 6000],
      ['forwarded', client, '10.77.2.2', 9000],
      ['source NAT', a.ns, '10.77.2.2', 9000],
      ['bridge', a.ns, target, 9000],
    ]
    const begin = async () => ({
      datagrams: await Promise.all(ways.map(([, ...way]) => probe(...way))),
      streams: await Promise.all(ways.map(([, ...way]) => stream(...way))),
    })
    const end = async ({ datagrams, streams }: Awaited<ReturnType<typeof begin>>, what: string) => {
      for (const [at, { sent, answered }] of (await Promise.all(datagrams.map((it) => it.end()))).entries()) {
        const title = `${what}: ${ways[at]?.[0]}: ${sent} datagrams`
        t.ok(sent > 50, title)
        t.equal(sent - answered, 0, `${title}, none lost`)
      }
      const pauses: string[] = []
      for (const [at, { sent, back, wrong, broken, pause, late }] of (
        await Promise.all(streams.map((it) => it.end()))
      ).entries()) {
        const title = `${what}: ${ways[at]?.[0]}: a connection of ${sent} bytes`
        t.ok(sent > 2000, title)
        t.same({ back, wrong, broken }, { back: sent, wrong: 0, broken: null }, `${title}, none wrong`)
        t.ok(pause < late + 1000, `${title}, never at rest for a second`)
        pauses.push(`${ways[at]?.[0]} ${pause} ms (sender late ${late})`)
      }
      t.comment(`${what}: longest pauses of the connections: ${pauses.join(', ')}`)
    }

    let traffic = await begin()
    const api = await asking(ns)
    const [first, frr, responder] = [await pid(), await daemons(/frr/), await daemons(/responder/)]
    const programs = (await ok('sh', '-c', PROGRAMS)).split('\n')
    const began = performance.now()
    await ok('dpkg', '--install', later)
    const took = performance.now() - began
    t.match(await ok('stratumctl', 'service', 'status'), /^rest: listening/m)
    t.comment(`upgrade: dpkg took ${took.toFixed(0)} ms, the API gave no answer for ${(await api.end()).silent} ms`)
    await end(traffic, 'upgrade')
    t.not(await pid(), first, 'it is another agent')
    t.match(await ok('stratumd', '--version'), /\.1$/)
    t.same(await daemons(/frr/), frr, 'the daemons of FRR have gone on')
    t.notSame(await daemons(/responder/), responder, 'the responder is the later one')
    const now = (await ok('sh', '-c', PROGRAMS)).split('\n')
    t.ok(programs.length > 5 && now.length === programs.length, `${programs.length} programs are in place, as before`)
    const old = now.filter((id) => programs.includes(id))
    t.same(old, [], 'none of them is of the earlier version')

    const back = await node.run('dpkg', '--install', file)
    t.match(back, { status: 1, err: /cannot read what the installed .* has stored\. To go back/ })
    await call('GET', '/status')

    traffic = await begin()
    t.match(await ok('dpkg', '--remove', 'stratum-node'), /stays in force/)
    t.notOk((await node.processes()).has(await pid()), 'the agent is gone')
    t.match(await ok('ls', '/var/lib/stratum'), /overrides\.json/)
    t.notMatch(await ok('dpkg', '--install', later), /Next:/)
    await call('GET', '/rules/1')
    t.pass('installed again, it runs as before')
    await ok('dpkg', '--purge', 'stratum-node')
    const rest = 'ls -d /var/lib/stratum /etc/stratum /usr/lib/stratum-node 2>/dev/null || true'
    t.equal(await ok('sh', '-c', rest), '')
    await end(traffic, 'removal, installation, purge')
    t.same(await daemons(/frr/), frr, 'the daemons have gone on')

    // The program from the package, not installed.
    await ok('dpkg-deb', '--extract', later, '/opt/later')
    const teardown = ['node', '/opt/later/usr/lib/stratum-node/build/core/cli/main.js', 'teardown']
    t.match(await node.run(...teardown), { status: 2, err: /teardown --yes/ }, 'it must be confirmed')
    const told = await ok(...teardown, '--yes')
    t.match(told, /nft tables/)
    t.match(told, /attached eBPF programs/)
    t.match(told, /processes of FRR/)
    for (const it of [a, b]) t.notOk(/master/.test(ns.run('ip', '-o', 'link', 'show', it.port)), 'the bridge is gone')
    t.same([...(await node.processes()).values()], [], 'no process of ours is left')
    t.same(await kernelOf(node), before, 'nothing of ours is left in the kernel')
    t.equal(await ok(...teardown, '--yes'), 'nothing of ours was there')
  },
)
