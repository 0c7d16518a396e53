/** Pins of the agent deleted by somebody who keeps it from putting them back: what no program judges any more goes nowhere. */
import t from 'tap'
import { frame, tap } from './frames.ts'
import { requireRoot } from './netns.ts'
import { machine, network, WIPES, wipe } from './pins.ts'
import { workloadNode } from './workload.ts'

requireRoot(t)

for (const what of WIPES) {
  t.test(`no machine of one tenant hears one of another after ${what} among the pins was deleted`, async (t) => {
    const node = await workloadNode(t)
    const [at, other] = [await network(node, 'mine', '10.1.0.0/24'), await network(node, 'theirs', '10.2.0.0/24')]
    const [a, b, c] = [await machine(node, 'a', at), await machine(node, 'b', at), await machine(node, 'c', other)]
    t.ok(a.reaches('10.1.0.3') && c.reaches('10.2.0.1'))
    const ends = [a, b, c].map(({ ns }) => tap(t, ns))
    const [from, , to] = ends
    if (from === undefined || to === undefined) throw new Error('no guests')
    const hears = (said: string) => {
      from.send(frame({ from: from.mac }, Buffer.from(said)))
      from.send(frame({ from: from.mac, to: to.mac }, Buffer.from(said)))
      // What passed has come by the time that ping has given up.
      t.notOk(c.pings('10.2.0.99'))
      t.notOk(
        to.seen().some((one) => one.includes(said)),
        said,
      )
    }
    hears('as it shall be')
    node.agent.child.kill('SIGSTOP')
    wipe(node.ns, what)
    hears('while the agent is held up')
    await node.agent.kill('SIGKILL')
    hears('without an agent')
    await node.agent.restart()
    hears('with the next one')
    t.ok(a.reaches('10.1.0.3') && c.reaches('10.2.0.1'), 'which lets each be heard in its own network')
  })
}
