/**
 * The life of an installed node, on a machine without compilers: install, enable, upgrade, remove, purge, install again,
 * tear down. Streams through a VIP, a port forward and the workload bridge go on all the while, until they are torn down.
 */
import t from 'tap'
import { netns, requireRoot, veth } from '../netns.ts'
import { guest } from '../workload.ts'
import { builtPackage } from './built.ts'
import { type Machine, machine } from './machine.ts'
import { echo, type Probe, probe } from './traffic.ts'

requireRoot(t)

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

async function kernelOf({ ok }: Machine): Promise<string[]> {
  const texts: string[] = []
  for (const line of KERNEL) texts.push(`${line}\n${await ok('sh', '-c', line)}`)
  return texts
}

t.test(
  'enable-27 enable-28 installed, upgraded under traffic, removed, purged, torn down',
  { timeout: 300_000 },
  async (t) => {
    const node = await machine(t)
    const { ns, ok } = node
    const [client, server] = [netns(t, 'c'), netns(t, 's')]
    veth(t, { ns: client, name: 'eth0', addr: '10.77.1.2/24' }, { ns, name: 'left', addr: '10.77.1.1/24' })
    veth(t, { ns: server, name: 'eth0', addr: '10.77.2.2/24' }, { ns, name: 'right', addr: '10.77.2.1/24' })
    client.run('ip', 'route', 'add', 'default', 'via', '10.77.1.1')
    server.run('ip', 'route', 'add', 'default', 'via', '10.77.2.1')
    await ok('sh', '-c', 'echo 1 >/proc/sys/net/ipv4/ip_forward')
    const guests = ['a', 'b'].map((name) => guest(t, ns, name, { plugged: false }))
    const [a, b] = guests
    if (!a || !b) throw new Error('two guests')
    const before = await kernelOf(node)

    const file = builtPackage(t)
    await ok('dpkg', '--install', file)
    t.same([...(await node.processes()).values()], [], 'installing starts nothing')
    const installed = await node.run('stratum-install', 'compute')
    t.equal(installed.status, 0, installed.err)
    const token = installed.out.trim()
    t.match(token, /^nt_[\w-]{43}$/, 'one command enables the node, and shows the token')
    t.match(installed.err, /evaluation licence is installed/)
    const pid = async () => Number(await ok('cat', '/run/stratumd.pid'))
    const first = await pid()

    const call = async (method: string, path: string, body: object) => {
      const args = ['-sS', '-k', '-X', method, '-H', `Authorization: Bearer ${token}`, '-w', '\n%{http_code}']
      const json = ['-H', 'Content-Type: application/json', '-d', JSON.stringify(body)]
      const answer = (await ok('curl', ...args, ...json, `https://127.0.0.1:7070/api/v1${path}`)).split('\n')
      if (!answer.at(-1)?.startsWith('2')) throw new Error(`${method} ${path}: ${answer.join(' ')}`)
    }
    await call('POST', '/lb', {
      id: 'web',
      frontend_ip: '10.77.9.9',
      frontend_port: 5000,
      protocol: 'udp',
      algorithm: 'maglev',
    })
    await call('POST', '/lb/web/backends', { id: 's', ip: '10.77.2.2', port: 9000 })
    await call('POST', '/forward', { dest_ip: '10.77.1.1', dest_port: 6000, target_ip: '10.77.2.2', target_port: 9001 })
    await call('POST', '/networks', { name: 'lan', cidr: '10.78.0.0/24' })
    await call('POST', '/rules', { action: 'drop', source_ip: '198.51.100.0/24' })
    await call('POST', '/routes', { destination: '203.0.113.0/24', gateway: '10.77.2.2' })
    await call('POST', '/dns/zones', { name: 'example.org' })
    await ok('stratumctl', 'config', 'set', 'dns_listen', '10.77.1.1')
    await call('POST', '/bgp/neighbors', { peer_addr: '10.77.2.2', peer_as: 65002, local_as: 65001 })
    for (const it of [a, b]) {
      it.plug()
      const answer = await ok(
        'stratumctl',
        '--json',
        'machine',
        'attach',
        it.port,
        '--network',
        'lan',
        '--port',
        it.port,
      )
      const { nic }: { nic: { ip: string; mac: string } } = JSON.parse(answer)
      it.setMac(nic.mac)
      it.ns.run('ip', 'address', 'add', `${nic.ip}/24`, 'dev', 'eth0')
    }
    const target = /inet ([0-9.]+)\/24/.exec(b.ns.run('ip', 'address', 'show', 'dev', 'eth0'))?.[1] ?? ''
    t.ok(a.reaches(target), 'the guests reach each other')
    const daemons = async () => [...(await node.processes())].filter(([, args]) => /responder|frr/.test(args)).sort()
    t.equal((await daemons()).length, 4, 'the responder and three daemons of FRR run')

    await echo(server, 9000)
    await echo(server, 9001)
    await echo(b.ns, 9002)
    const begin = async (): Promise<Map<string, Probe>> =>
      new Map([
        ['VIP', await probe(client, '10.77.9.9', 5000)],
        ['port forward', await probe(client, '10.77.1.1', 6000)],
        ['bridge', await probe(a.ns, target, 9002)],
      ])
    const end = async (probes: Map<string, Probe>, what: string) => {
      for (const [way, { sent, answered }] of await Promise.all(
        Array.from(probes, async ([way, it]) => [way, await it.end()] as const),
      )) {
        t.ok(sent > 100, `${what}: ${way}: ${sent} datagrams sent`)
        t.equal(sent - answered, 0, `${what}: ${way}: none lost`)
      }
    }

    let probes = await begin()
    const standing = await daemons()
    await ok('dpkg', '--install', file)
    t.not(await pid(), first, 'the upgrade has started the agent anew')
    t.match(await ok('stratumctl', 'service', 'status'), /^rest: listening/m)
    await end(probes, 'upgrade')
    t.same(await daemons(), standing, 'the daemons have gone on')

    probes = await begin()
    t.match(await ok('dpkg', '--remove', 'stratum-node'), /stays in force/)
    t.notOk((await node.processes()).has(await pid()), 'the agent is gone')
    t.match(await ok('ls', '/var/lib/stratum'), /overrides\.json/)
    await ok('dpkg', '--purge', 'stratum-node')
    t.equal(await ok('sh', '-c', 'ls -d /var/lib/stratum /etc/stratum /usr/lib/stratum-node 2>/dev/null || true'), '')
    await end(probes, 'removal and purge')
    t.same(await daemons(), standing, 'the daemons have gone on')

    await ok('dpkg', '--install', file)
    t.match(await node.run('stratumctl', 'teardown'), { status: 2, err: /teardown --yes/ }, 'it must be confirmed')
    const told = await ok('stratumctl', 'teardown', '--yes')
    t.match(told, /nft tables/)
    t.match(told, /attached eBPF programs/)
    t.match(told, /processes of FRR/)
    for (const it of [a, b]) t.notOk(/master/.test(ns.run('ip', '-o', 'link', 'show', it.port)), 'the bridge is gone')
    t.same([...(await node.processes()).values()], [], 'no process of ours is left')
    t.same(await kernelOf(node), before, 'nothing of ours is left in the kernel')
    t.equal(await ok('stratumctl', 'teardown', '--yes'), 'nothing of ours was there')
  },
)
