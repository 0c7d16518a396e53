import '../../../../test/inside.ts'
import { join } from 'node:path'
import koffi from 'koffi'
import t from 'tap'
import { requireRoot } from '../../../../test/netns.ts'
import { openKernel } from '../../../kernel.ts'
import { layoutDir } from '../../bpffs.ts'
import { checked, libbpf } from '../../libbpf.ts'
import { openLink } from '../../link.ts'
import { binding, net } from '../../port/entries.ts'
import { ifindex } from '../../test/support.ts'
import { backend, backendAddress, CLIENT, lab, outsideAddress, tallied, VIP, vip } from './lab.ts'

requireRoot(t)

const it = await lab(t, 3)
for (const [n, machine] of it.backends.entries()) {
  await machine.tell('listen', { protocol: 'tcp', port: 8080, name: `b${n + 1}` })
}
// The whole plane takes over what is pinned, with the programs on the ports of br-work.
await it.balancer.driver.close()
it.balancer.driver.close = async () => {}
const plane = await openKernel({
  skeletons: [],
  owners: new Map(),
  bpfDir: it.root,
  portKinds: { net: 'networks', binding: 'networks' },
  onProblem: (error) => void it.problems.push(error),
  responderSocket: `${it.root}/none`,
  onLoss() {},
})
t.teardown(() => plane.close())
await plane.observe()
const at = { address: VIP, port: 80 }
const bound = [1, 2].map((n) => {
  const mac = /link\/ether (\S+)/.exec(it.backends[n - 1]?.ns.run('ip', 'link', 'show', 'eth0') ?? '')?.[1] ?? ''
  return binding('networks', { net: 5, address: backendAddress(n), mac, routed: [], port: `port${n}` })
})
const network = net('networks', { net: 5, cidr: '10.9.0.0/24', gateway: '10.9.0.1', hostGateway: true })

t.test('backends in a private network, which has this node for its gateway', async (t) => {
  const entry = vip({ backends: [backend(1), backend(2)] })
  await plane.apply([network, ...bound, entry].map((after) => ({ after })))
  t.ok(plane.balancer.accelerated, plane.balancer.detail())
  const answers = await it.client.tell('ask', { ...at, count: 10 })
  t.same(tallied(answers), { b1: 5, b2: 5 }, answers.join())
  t.ok(
    answers.every((answer) => answer.endsWith(` ${CLIENT}`)),
    'the client keeps its address',
  )
  const { handle } = await it.client.tell('open', at)
  t.equal(await it.client.tell('say', { handle, text: 'bulk '.repeat(50_000) }), 'same')
  await it.client.tell('close', { handle, how: 'fin' })
  t.same(tallied((await it.backends[0]?.tell('ask', { ...at, count: 4 })) ?? []), { b1: 2, b2: 2 }, 'a member asks')
  const outside = it.outside(1)
  await outside.tell('listen', { protocol: 'tcp', port: 8080, name: 'o1' })
  const off = vip({ backends: [backend(1, { address: outsideAddress(1) })] })
  await plane.apply([{ before: entry, after: off }])
  t.match(await it.backends[1]?.tell('ask', at), [/^o1 /], 'a member asks, the backend is off the node')
  await plane.apply([{ before: off }, ...bound.map((before) => ({ before })), { before: network }])
  t.same(
    (await plane.observe()).filter(({ kind }) => kind === 'vip'),
    [],
  )
})

t.test('a network that this node is no gateway of has no way to a virtual address', async (t) => {
  const entry = vip({ backends: [backend(1)] })
  const closed = net('networks', { net: 5, cidr: '10.9.0.0/24', gateway: '10.9.0.1', hostGateway: false })
  await plane.apply([closed, ...bound, entry].map((after) => ({ after })))
  const unheard = await it.backends[1]?.tell('ask', { ...at, timeoutMs: 500 })
  t.same(unheard, ['timeout'], 'the node is not the gateway of this network')
  await plane.apply([{ before: entry }, ...bound.map((before) => ({ before })), { before: closed }])
})

t.test('the guard of br-work stands before the load balancer, whoever came last', async (t) => {
  const entry = vip({ backends: [backend(1)] })
  await plane.apply([network, ...bound, entry].map((after) => ({ after })))
  const guard = join(layoutDir(it.root), 'links', `host-${ifindex('br-work')}-ingress`)
  const own = join(layoutDir(join(it.root, 'lb')), 'links', String(ifindex('br-work')))
  const order = async () => [await programOf(guard), await programOf(own)]
  t.same(await attached(), await order())
  // As when br-work is made anew, and the load balancer hears of it first.
  await openLink(guard).detach()
  t.equal((await attached()).length, 1)
  await plane.observe()
  t.same(await attached(), await order())
  await plane.apply([{ before: entry }, ...bound.map((before) => ({ before })), { before: network }])
})

async function programOf(pin: string): Promise<number> {
  const link = openLink(pin)
  const { programId } = link.info()
  await link.close()
  return programId
}

/** Ids of the programs at tcx ingress of br-work, in their order (struct bpf_attr.query of linux/bpf.h). */
async function attached(): Promise<number[]> {
  const ids = new Uint32Array(8)
  const attributes = Buffer.alloc(64)
  attributes.writeUInt32LE(ifindex('br-work'), 0)
  attributes.writeUInt32LE(46, 4)
  attributes.writeBigUInt64LE(koffi.address(ids), 16)
  attributes.writeUInt32LE(ids.length, 24)
  const BPF_PROG_QUERY = 16
  checked(await libbpf().bpf(BPF_PROG_QUERY, attributes), 'ask for the programs')
  return [...ids.subarray(0, attributes.readUInt32LE(24))]
}

t.same(it.problems, [])
