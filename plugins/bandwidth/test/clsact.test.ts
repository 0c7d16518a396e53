/**
 * A node whose programs hang on devices by filters of clsact, as before Linux 6.6: guarded, isolated, limited, whatever
 * becomes of the agent. In the machine of scripts/test-vm.ts that is what the kernel has; elsewhere the agent is told to.
 */
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import t from 'tap'
import { inMachine, PATIENCE } from '../../../test/kernel-features.ts'
import { requireRoot } from '../../../test/netns.ts'
import type { Guest } from '../../../test/workload.ts'
import { BANDWIDTH, type Place, place, QUOTAS } from './lab.ts'

requireRoot(t)

/** Below what an emulated processor forwards. */
const RATE = 400_000
const SPOOFED = '10.80.0.99'

/** Puts a guest into a network by its port. */
async function bind({ node }: Place, network: string, guest: Guest, ip: string): Promise<void> {
  const { nic } = await node.ok('POST', '/control/v1/compute/machines', {
    machine: guest.port,
    network,
    ip,
    port: guest.port,
  })
  guest.setMac((nic as { mac: string }).mac)
  guest.ns.run('ip', 'address', 'add', `${ip}/24`, 'dev', 'eth0')
}

/** Pings all the while; resolves to how many echoes were sent and how many came back. */
async function pinging(guest: Guest, address: string, meanwhile: () => Promise<unknown>) {
  const state = { done: false }
  const work = meanwhile().finally(() => {
    state.done = true
  })
  const total = { sent: 0, received: 0 }
  while (!state.done) {
    const child = guest.ns.spawn('ping', ['-n', '-q', '-c', '25', '-i', '0.04', '-W', '5', address])
    let said = ''
    child.stdout?.on('data', (bytes: Buffer) => {
      said += bytes.toString()
    })
    await once(child, 'close')
    const [, sent, received] = /(\d+) packets transmitted, (\d+) received/.exec(said) ?? []
    total.sent += Number(sent)
    total.received += Number(received)
  }
  await work
  return total
}

const devices = ({ node }: Place): string[] =>
  (JSON.parse(node.ns.run('tc', '-j', 'qdisc', 'show')) as { kind: string; dev: string }[])
    .filter(({ kind }) => kind === 'clsact')
    .map(({ dev }) => dev)
    .sort()

const filters = (it: Place): string =>
  devices(it)
    .flatMap((dev) => ['ingress', 'egress'].map((side) => it.node.ns.run('tc', 'filter', 'show', 'dev', dev, side)))
    .join('')

const title = 'guarded by filters of clsact, with and without an agent, and after one that guarded nothing'

t.test(title, { timeout: 200_000 * PATIENCE }, async (t) => {
  const it = await place(t, 2, inMachine ? {} : { env: { STRATUM_ATTACH: 'clsact' } })
  const { node, mac } = it
  const { facilities } = (await node.ok('GET', '/control/v1/services')) as { facilities: Record<string, unknown>[] }
  t.match(
    facilities.find(({ name }) => name === 'port'),
    { available: true, detail: /attached by clsact/ },
  )
  t.match(
    facilities.find(({ name }) => name === 'shaping'),
    { available: true },
  )
  const [a, b, c] = [node.guest('a'), node.guest('b'), node.guest('c')]
  await node.guarded(a, b, c)
  const network = async (name: string, cidr: string) => {
    const { network } = await node.ok('POST', '/api/v1/networks', { name, cidr })
    return (network as { id: string }).id
  }
  const [lan, other] = [await network('lan', '10.80.0.0/24'), await network('other', '10.81.0.0/24')]
  await bind(it, lan, a, '10.80.0.1')
  await bind(it, lan, b, '10.80.0.2')
  await bind(it, other, c, '10.81.0.3')
  a.ns.run('ip', 'route', 'add', '10.81.0.0/24', 'dev', 'eth0')
  c.ns.run('ip', 'route', 'add', '10.80.0.0/24', 'dev', 'eth0')
  a.ns.run('ip', 'address', 'add', `${SPOOFED}/24`, 'dev', 'eth0')
  const isGuarded = (when: string) => {
    t.ok(a.reaches('10.80.0.2', '10.80.0.1'), `${when}: within a network`)
    t.notOk(a.pings('10.80.0.2', SPOOFED), `${when}: from an address that is not its own`)
    t.notOk(a.pings('10.81.0.3', '10.80.0.1'), `${when}: to another network`)
  }
  isGuarded('with an agent')

  await node.ok('POST', BANDWIDTH, { id: 'one', target_mac: mac(1), rate_bps: RATE })
  const stream = it.send(1, 2, RATE * 2)
  // What it may send at once comes on top, but once.
  await it.rateInto(2, 1000)
  const rate = await it.rateInto(2, 6000)
  t.ok(rate <= RATE * 1.03 && rate > RATE * 0.7, `limited to ${Math.round(rate)} of ${RATE}`)
  await stream.stop()

  const standing = filters(it)
  for (const what of ['host', 'workload', 'near', 'far'])
    t.match(standing, new RegExp(`stratum/[0-9]+/${what}/clsact `))
  await node.agent.kill('SIGKILL')
  isGuarded('without an agent')
  const passed = await pinging(a, '10.80.0.2', () => node.agent.restart())
  t.ok(passed.sent > 0)
  t.equal(passed.received, passed.sent, `${passed.sent} echoes while the next agent put its programs in place`)
  t.equal(filters(it), standing, 'what hangs on the devices stays as it was')

  // An agent that guarded nothing has left: no programs, and a gate that lets pass what is not stamped.
  await node.agent.kill('SIGKILL')
  for (const device of devices(it)) node.ns.run('tc', 'qdisc', 'del', 'dev', device, 'clsact')
  rmSync(`/sys/fs/bpf/${node.ns.name}`, { recursive: true, force: true })
  node.ns.run('nft', 'delete', 'table', 'bridge', 'stratum')
  t.ok(a.reaches('10.80.0.2', SPOOFED), 'nobody guards anything')
  t.ok(a.reaches('10.81.0.3', '10.80.0.1'))
  await node.agent.restart()
  await node.guarded(a, b, c)
  isGuarded('after an agent that guarded nothing')

  const quota = { id: 'q', mac: mac(1), monthly_limit_bytes: 50_000, action: 'block', enforced: true }
  await node.ok('POST', QUOTAS, quota)
  t.ok(it.guest(1).pings(it.address(2)))
  const spent = it.send(1, 2, RATE)
  await node.event('quota.state_changed', ({ to }) => to === 'exceeded')
  t.notOk(it.guest(1).pings(it.address(2)), 'a quota that is used up blocks')
  await spent.stop()
})
