/** Whatever a host on the uplink's wire sends, a rule that drops it, or a default deny, keeps it from a guest. */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { type Tap, tap } from '../../frames.ts'
import { netns, requireRoot, veth } from '../../netns.ts'
import { workloadNode } from '../../workload.ts'
import { type Probe, probes } from './neighbour.ts'
import { ethernet, ipv4, TYPE, udp } from './packets.ts'

const [ATTACKER, OTHER, GUEST] = ['198.51.100.9', '198.51.100.77', '10.1.0.11']
const UDP = 17

t.test('fw-23 fw-38 no packet of a neighbour gets by a drop or a default deny', async (t) => {
  if (!requireRoot(t)) return
  const ns = netns(t, 'node')
  const outside = netns(t, 'out')
  veth(t, { ns, name: 'up0', addr: '198.51.100.1/24' }, { ns: outside, name: 'eth0' })
  const node = await workloadNode(t, { ns, config: { uplink: 'up0' } })
  const guest = node.guest('g')
  await node.guarded(guest)
  const body = { name: 'lan', cidr: '10.1.0.0/24', gateway: '10.1.0.1', host_gateway: true }
  const { network } = await node.ok('POST', '/api/v1/networks', body)
  const { id } = network as { id: string }
  const { endpoint } = await node.ok('POST', `/api/v1/networks/${id}/attach`, { ip: GUEST })
  guest.setMac((endpoint as { mac: string }).mac)
  guest.ns.run('ip', 'address', 'add', `${GUEST}/24`, 'dev', 'eth0')
  await node.inNetwork(guest)
  t.ok(guest.reaches('10.1.0.1'), 'the guest is there')

  const [from, to] = [tap(t, outside), tap(t, guest.ns)]
  const [up] = JSON.parse(ns.run('ip', '-j', 'link', 'show', 'up0')) as { address: string }[]
  const wire = { from, to, router: up?.address ?? '' }
  await t.test('control: without a rule they arrive', async (t) => {
    for (const probe of probes) if (probe.passes !== false) t.ok(await arrives(wire, probe), probe.what)
  })
  const { rule } = await node.ok('POST', '/api/v1/rules', { action: 'drop', source_ip: ATTACKER })
  await t.test('a rule that drops their source', async (t) => {
    for (const probe of probes) t.notOk(await arrives(wire, probe), probe.what)
  })
  await node.ok('DELETE', `/api/v1/rules/${(rule as { id: number }).id}`)
  await node.ok('POST', '/api/v1/rules', { action: 'accept', source_ip: OTHER })
  await node.ok('PUT', '/api/v1/rules/default', { default_action: 'deny' })
  await t.test('a default deny', async (t) => {
    for (const probe of probes) t.notOk(await arrives(wire, probe), probe.what)
  })
})

interface Wire {
  from: Tap
  to: Tap
  /** MAC of the node. */
  router: string
}

/** Sends a probe, and behind it a datagram of somebody else that must arrive; says whether the probe came before that. */
async function arrives({ from, to, router }: Wire, probe: Probe): Promise<boolean> {
  const [mark, fence] = [randomBytes(12), randomBytes(12)]
  const send = (packet: Buffer) => from.send(ethernet(router, from.mac, [TYPE.ipv4], packet))
  to.seen()
  for (const packet of probe.packets(ATTACKER, GUEST, mark)) send(packet)
  send(ipv4({ from: OTHER, to: GUEST, protocol: UDP }, udp(1, 2, fence)))
  const signal = AbortSignal.timeout(10_000)
  for (let found = false; ; ) {
    for (const one of to.seen()) {
      if (one.includes(mark)) found = true
      if (one.includes(fence)) return found
    }
    if (signal.aborted) throw new Error('the datagram behind the probe did not arrive')
    await new Promise((wait) => setTimeout(wait, 1))
  }
}
