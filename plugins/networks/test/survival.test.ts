/**
 * What passes between workloads goes on whatever becomes of the agent, and the kernel holds what the store does after each
 * start, wherever the agent was killed. KILLS sets how often (short by default), SEED makes a run repeatable.
 */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import t from 'tap'
import { chance } from '../../../test/chance.ts'
import { requireRoot } from '../../../test/netns.ts'
import { SEED } from '../../../test/seed.ts'
import { type Guest, type WorkloadNode, workloadNode } from '../../../test/workload.ts'
import { portDump } from './dump.ts'

requireRoot(t)

const KILLS = Number(process.env.KILLS ?? 2)
const P = '/api/v1'

/** Echoes lines of a connection and counts numbered datagrams; tells at the end. */
const SERVER = `
const tcp = require('node:net').createServer((c) => c.pipe(c))
const seen = new Set(); let doubled = 0
const udp = require('node:dgram').createSocket('udp4')
udp.on('message', (m) => { const n = m.readUInt32LE(0); if (seen.has(n)) doubled++; seen.add(n) })
tcp.listen(9000, () => udp.bind(9001, () => console.log('listening')))
process.on('SIGUSR2', () => console.log(JSON.stringify({ received: seen.size, doubled })))
`
/** One connection for good, a line and a datagram every other millisecond. */
const CLIENT = `
const [, address] = process.argv
const udp = require('node:dgram').createSocket('udp4')
let [sent, echoed, closed, stop] = [0, '', 0, false]
const tcp = require('node:net').connect(9000, address, () => {
  console.log('connected')
  const timer = setInterval(() => {
    if (stop) return clearInterval(timer)
    const number = Buffer.alloc(4); number.writeUInt32LE(sent)
    udp.send(number, 9001, address); tcp.write(sent++ + '\\n')
  }, 2)
})
tcp.on('data', (d) => { echoed += d }).on('error', () => closed++).on('close', () => closed++)
const tell = () => {
  const lines = echoed.split('\\n'); lines.pop()
  const inOrder = lines.every((text, n) => Number(text) === n)
  if (lines.length < sent && !closed) return setTimeout(tell, 20)
  console.log(JSON.stringify({ sent, echoed: lines.length, inOrder, closed }))
}
process.on('SIGUSR2', () => { stop = true; tell() })
`

/** The next line that a process says. */
function teller({ stdout }: ChildProcess): () => Promise<string> {
  if (stdout === null) throw new TypeError('no stdout')
  const lines = createInterface({ input: stdout })
  return async () => String((await once(lines, 'line'))[0])
}

async function place(node: WorkloadNode, network: string, guest: Guest, ip: string, port?: string) {
  const wanted = { machine: guest.port, network, ip, ...(port && { port }) }
  const { nic } = await node.ok('POST', '/control/v1/compute/machines', wanted)
  guest.setMac((nic as { mac: string }).mac)
  guest.ns.run('ip', 'address', 'add', `${ip}/24`, 'dev', 'eth0')
}

const nets = async (node: WorkloadNode) =>
  ((await node.ok('GET', '/control/v1/l2/ports')).ports as { name: string; net: number }[])
    .map(({ name, net }) => `${name} ${net}`)
    .sort()

/** Binds, frees, moves and claims until the agent is killed in the middle of it. */
async function changesUntilKilled(node: WorkloadNode, network: string, random: () => number): Promise<void> {
  const gone = once(node.agent.child, 'exit')
  setTimeout(() => node.agent.child.kill('SIGKILL'), 20 + random() * 200)
  const at = `${P}/networks/${network}`
  const bound: string[] = []
  try {
    for (let n = 0; ; n++) {
      const one = bound[Math.floor(random() * bound.length)]
      const kind = random()
      if (one === undefined || kind < 0.5) {
        const { body } = await node.agent.call('POST', `${at}/attach`, {})
        const endpoint = body.endpoint as { id: string } | undefined
        if (endpoint) bound.push(endpoint.id)
      } else if (kind < 0.75) {
        const mac = `02:00:00:00:${(n >> 8).toString(16).padStart(2, '0')}:${(n & 255).toString(16).padStart(2, '0')}`
        await node.agent.call('PUT', `${at}/endpoints/${one}/mac`, { mac })
      } else if (kind < 0.9) {
        await node.agent.call('POST', `${at}/endpoints/${one}/detach`)
        bound.splice(bound.indexOf(one), 1)
      } else {
        await node.agent.call('POST', '/control/v1/compute/machines', { machine: `vm${n}`, public_ip: 'auto' })
      }
    }
  } catch {
    // The agent is gone, which is the point.
    await gone
  }
}

const timeout = 60_000 + KILLS * 10_000

t.test(
  'state-01 state-04 persist-02 connections outlive the agent, and the kernel equals the store',
  { timeout },
  async (t) => {
    t.comment(`KILLS=${KILLS} SEED=${SEED}`)
    const random = chance(SEED)
    const node = await workloadNode(t)
    const [a, b] = [node.guest('a'), node.guest('b')]
    await node.guarded(a, b)
    const { network } = await node.ok('POST', `${P}/networks`, { name: 'lan', cidr: '10.0.0.0/22' })
    const { id } = network as { id: string }
    await node.ok('POST', `${P}/routed-addresses`, { cidr: '8.8.4.0/24' })
    await place(node, id, a, '10.0.0.1')
    await place(node, id, b, '10.0.0.2', b.port)
    t.ok(a.reaches('10.0.0.2'))

    const server = b.ns.spawn(process.execPath, ['-e', SERVER])
    const serverTells = teller(server)
    await serverTells()
    const client = a.ns.spawn(process.execPath, ['-e', CLIENT, '10.0.0.2'])
    const clientTells = teller(client)
    t.equal(await clientTells(), 'connected')

    const ports = await nets(node)
    t.match(ports, [/br-work 0/, /tapa\d 1/, /tapb\d 1/])
    for (let kill = 0; kill < KILLS; kill++) {
      const dump = portDump(node)
      const lines = node.agent.logged.length
      await node.agent.restart()
      t.same(portDump(node), dump, 'a restart leaves every row as it was')
      const repairs = node.agent.logged
        .slice(lines)
        .filter(({ added, changed, removed }) => added || changed || removed)
      t.same(repairs, [], 'and finds nothing to repair')

      await changesUntilKilled(node, id, random)
      await node.agent.restart()
      const { status, found } = await node.ok('POST', '/control/v1/drift', { dry_run: true })
      t.same({ status, found }, { status: 'clean', found: [] }, `the kernel equals the store after kill ${kill + 1}`)
      t.same(await nets(node), ports, 'ports are in the networks that they were in')
    }

    const said = clientTells()
    client.kill('SIGUSR2')
    const { sent, echoed, inOrder, closed } = JSON.parse(await said)
    t.same({ echoed, inOrder, closed }, { echoed: sent, inOrder: true, closed: 0 }, `${sent} lines on one connection`)
    const counted = serverTells()
    server.kill('SIGUSR2')
    t.same(JSON.parse(await counted), { received: sent, doubled: 0 }, `${sent} datagrams, none lost, none doubled`)
  },
)

t.test("state-04 a port whose MAC was freed is nobody's again, although the agent was killed at once", async (t) => {
  const node = await workloadNode(t)
  const a = node.guest('a')
  await node.guarded(a)
  const { network } = await node.ok('POST', `${P}/networks`, { name: 'lan', cidr: '10.0.0.0/24' })
  const { id } = network as { id: string }
  const { endpoint } = await node.ok('POST', `${P}/networks/${id}/attach`, {})
  const one = endpoint as { id: string; mac: string; ip: string }
  a.setMac(one.mac)
  a.ns.run('ip', 'address', 'add', `${one.ip}/24`, 'dev', 'eth0')
  await node.inNetwork(a)
  await node.ok('POST', `${P}/networks/${id}/endpoints/${one.id}/detach`)
  await node.agent.kill('SIGKILL')
  await node.agent.restart()
  await node.open(a)
  t.pass('open')
})

t.test('state-01 a guest that keeps silent is found by the next agent too', async (t) => {
  const node = await workloadNode(t)
  const a = node.guest('a', { plugged: false })
  const { network } = await node.ok('POST', `${P}/networks`, { name: 'lan', cidr: '10.0.0.0/24' })
  const { endpoint } = await node.ok('POST', `${P}/networks/${(network as { id: string }).id}/attach`, {})
  const one = endpoint as { mac: string; ip: string }
  a.ns.run('sysctl', '-qw', 'net.ipv6.conf.all.disable_ipv6=1')
  a.setMac(one.mac)
  a.ns.run('ip', 'address', 'add', `${one.ip}/24`, 'dev', 'eth0')
  await node.agent.restart()
  a.plug()
  await node.inNetwork(a)
  t.pass('asked for, and answered')
})
