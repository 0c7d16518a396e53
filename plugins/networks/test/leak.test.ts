/**
 * Nothing of a private network reaches a device that somebody puts into br-work, whatever the agent does meanwhile.
 * LEAKS sets how often with a running agent (short by default).
 */
import t, { type Test } from 'tap'
import { tap } from '../../../test/frames.ts'
import { requireRoot } from '../../../test/netns.ts'
import { flows, MARK, stream } from '../../../test/stream.ts'
import { type Guest, type WorkloadNode, workloadNode } from '../../../test/workload.ts'

requireRoot(t)

const ROUNDS = Number(process.env.LEAKS ?? 20)
/** So much passes while a stranger is there. */
const FRAMES = 1000

/** Guests `a` and `b` of one network, a broadcast stream of `a`, and a stranger whose port is in no bridge. */
async function scene(t: Test) {
  const node = await workloadNode(t)
  const [a, b] = [node.guest('a'), node.guest('b')]
  const stranger = node.guest('x', { plugged: false })
  await node.guarded(a, b)
  const { network } = await node.ok('POST', '/api/v1/networks', { name: 'lan', cidr: '10.0.0.0/24' })
  const id = (network as { id: string }).id
  const [one, two] = [await machine(node, id, a), await machine(node, id, b)]
  const sight = tap(t, stranger.ns)
  const live = stream(a, [one])
  t.teardown(() => live.end())
  await flows(b, 1)
  /** Frames of the stream that the stranger got since the last question. */
  const leaked = () => sight.seen().filter((frame) => frame.includes(MARK)).length
  return { node, a, b, stranger, leaked, macs: [one, two] }
}

async function machine(node: WorkloadNode, network: string, guest: Guest): Promise<string> {
  const wanted = { machine: guest.port, network, port: guest.port }
  const { nic } = await node.ok('POST', '/control/v1/compute/machines', wanted)
  const { mac } = nic as { mac: string }
  guest.setMac(mac)
  return mac
}

const timeout = 60_000 + ROUNDS * 2000

t.test(
  'tenant-10 a device put into br-work gets no frame of a network, the agent being alive',
  { timeout },
  async (t) => {
    const { node, b, stranger, leaked } = await scene(t)
    for (let round = 0; round < ROUNDS; round++) {
      stranger.plug()
      await node.guarded(stranger)
      await flows(b, 200)
      stranger.unplug()
      await node.unguarded(stranger)
    }
    t.equal(leaked(), 0, `${ROUNDS} times`)
  },
)

t.test('tenant-10 nor with the agent frozen or killed', async (t) => {
  const { node, b, stranger, leaked } = await scene(t)
  for (const signal of ['SIGSTOP', 'SIGKILL'] as const) {
    node.agent.child.kill(signal)
    for (let round = 0; round < 2; round++) {
      stranger.plug()
      await flows(b, FRAMES)
      stranger.unplug()
    }
    t.equal(leaked(), 0, signal)
    if (signal === 'SIGSTOP') node.agent.child.kill('SIGCONT')
  }
  node.ns.run('nft', 'delete', 'table', 'bridge', 'stratum')
  stranger.plug()
  await flows(b, FRAMES)
  t.ok(leaked() > 0, 'control: without the gate it would')
  await node.agent.restart()
  await node.guarded(stranger)
  leaked()
  await flows(b, FRAMES)
  t.equal(leaked(), 0, 'the next agent puts it back')
})

t.test(
  'a device that was deleted and made anew without an agent is a stranger until the next one knows it',
  async (t) => {
    const { node, a, stranger, b, macs } = await scene(t)
    await node.agent.kill('SIGKILL')
    node.ns.run('ip', 'link', 'del', b.port)
    node.ns.run('ip', 'link', 'set', stranger.port, 'down', 'name', b.port)
    node.ns.run('ip', 'link', 'set', b.port, 'up', 'master', 'br-work')
    const sight = tap(t, stranger.ns)
    await flows(a, FRAMES, 'tx')
    t.equal(sight.seen().filter((frame) => frame.includes(MARK)).length, 0, 'no frame')
    stranger.setMac(macs[1] ?? '')
    await node.agent.restart()
    await flows(stranger, FRAMES)
    t.ok(
      sight.seen().some((frame) => frame.includes(MARK)),
      'the machine is declared on the device of this name: the next agent guards it, and it gets what is its',
    )
  },
)

t.test('a port on another bridge gets nothing, and everything once it is back', async (t) => {
  const { node, a, b } = await scene(t)
  const sight = tap(t, b.ns)
  const got = () => sight.seen().filter((frame) => frame.includes(MARK)).length
  node.ns.run('ip', 'link', 'add', 'br-other', 'up', 'type', 'bridge')
  for (const alive of [true, false]) {
    if (!alive) await node.agent.kill('SIGKILL')
    node.ns.run('ip', 'link', 'set', b.port, 'master', 'br-other')
    got()
    await flows(a, FRAMES, 'tx')
    t.equal(got(), 0, alive ? 'with an agent' : 'without an agent')
    b.plug()
    if (alive) await node.guarded(b)
    await flows(b, FRAMES)
    t.ok(got() > 0, 'back')
  }
})
