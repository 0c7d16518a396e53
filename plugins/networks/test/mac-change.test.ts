/**
 * A MAC is changed through the API while the guest sends numbered frames from the old and the new one by turns.
 * CHANGES and FRAMES (a change) set how much (short by default; `CHANGES=220 FRAMES=5000` is the long run).
 */
import '../../../test/inside.ts'
import t, { type Test } from 'tap'
import { layoutDir } from '../../../dataplane/bpf/bpffs.ts'
import { u32, u64 } from '../../../dataplane/bpf/codec.ts'
import { attachTcx } from '../../../dataplane/bpf/link.ts'
import { openObject } from '../../../dataplane/bpf/object.ts'
import { bpffs, objectPath } from '../../../dataplane/bpf/test/support.ts'
import { here } from '../../../test/inside.ts'
import { netnsNamed, requireRoot } from '../../../test/netns.ts'
import { flows, stream } from '../../../test/stream.ts'
import { type Guest, type WorkloadNode, workloadNode } from '../../../test/workload.ts'

requireRoot(t)

const CHANGES = Number(process.env.CHANGES ?? 20)
const FRAMES = Number(process.env.FRAMES ?? 2500)
const OTHER = '02:00:00:00:00:42'

async function attach(node: WorkloadNode, network: string, guest: Guest) {
  const { endpoint } = await node.ok('POST', `/api/v1/networks/${network}/attach`, {})
  const { id, ip, mac } = endpoint as { id: string; ip: string; mac: string }
  guest.setMac(mac)
  guest.ns.run('ip', 'address', 'add', `${ip}/24`, 'dev', 'eth0')
  return { id, ip, mac }
}

/** Notes which frames of the stream come to the guest. */
async function recorder(t: Test, node: WorkloadNode, guest: Guest) {
  const object = openObject(objectPath('stage'), { pinDir: layoutDir(bpffs(t)) })
  t.teardown(() => object.close())
  await object.load()
  const [{ ifindex = 0 } = {}] = JSON.parse(node.ns.run('ip', '-j', 'link', 'show', guest.port)) as {
    ifindex: number
  }[]
  const link = await attachTcx(object.program('record'), ifindex, 'egress')
  t.teardown(() => link.close())
  return {
    doubled: () => object.map('doubled', u32, u64).get(0),
    async passed(): Promise<(frame: number) => number> {
      const words = new Map(await object.map('passed', u32, u64).lookupBatch())
      return (frame) => Number(((words.get(frame >> 6) ?? 0n) >> BigInt(frame & 63)) & 1n)
    },
  }
}

const timeout = 60_000 + CHANGES * FRAMES * 0.1

t.test('net-32 state-05 a MAC change under a stream is one instant for every frame', { timeout }, async (t) => {
  t.comment(`CHANGES=${CHANGES} FRAMES=${FRAMES}`)
  const node = await workloadNode(t, { ns: netnsNamed(t, here ?? '') })
  const [a, b] = [node.guest('a'), node.guest('b')]
  await node.guarded(a, b)
  const { network } = await node.ok('POST', '/api/v1/networks', { name: 'lan', cidr: '10.0.0.0/24' })
  const { id } = network as { id: string }
  const [one, two] = [await attach(node, id, a), await attach(node, id, b)]
  t.ok(a.reaches(two.ip), 'both ports are known')
  const record = await recorder(t, node, b)

  const live = stream(a, [one.mac, OTHER], { to: two.mac, most: 8_000_000 })
  let [mac, old] = [OTHER, one.mac]
  await flows(b, FRAMES / 2)
  for (let change = 0; change < CHANGES; change++) {
    await node.ok('PUT', `/api/v1/networks/${id}/endpoints/${one.id}/mac`, { mac })
    await flows(b, FRAMES / 2)
    ;[mac, old] = [old, mac]
  }
  const sent = await live.end()
  t.ok(sent >= FRAMES * CHANGES && sent < 8_000_000, `${sent} frames`)

  const passed = await record.passed()
  let [switches, state] = [0, 1]
  for (let frame = 0; frame < sent; frame++) {
    // 1 while the first MAC counts: then the even frames pass, and the odd ones do not.
    const now = passed(frame) ^ (frame & 1)
    if (now !== state) switches++
    state = now
  }
  t.equal(switches, CHANGES, 'no frame with neither or both, none lost: each change is one instant')
  t.equal(record.doubled(), 0n, 'none doubled')
})
