/** Conversations for the tests of D72: opened alive, and followed to their end. */
import type { Test } from 'tap'
import type { Netns } from '../../../test/netns.ts'
import type { Lab, Peer, Talk } from './lab.ts'
import type { Target } from './peer.ts'

/** On 1000 and 1001 the router and the server answer; on 1100 and 1101 they also speak unasked. */
export async function serveAll({ server, node }: Lab): Promise<void> {
  for (const machine of [server, node]) {
    for (const proto of ['udp', 'tcp'] as const) {
      await machine.serve(proto, [1000, 1001])
      await machine.serve(proto, [1100, 1101], 5)
    }
  }
}

/** A conversation that lives. */
export async function open(peer: Peer, target: Target): Promise<Talk> {
  const talk = await peer.open(target)
  if (!(await talk.lives())) throw new Error(`control: ${JSON.stringify(target)} does not live`)
  return talk
}

/** Asserts that nothing answers any more on the ones, while the others live on. */
export async function fates(
  t: Test,
  what: string,
  { ended, alive }: { ended: readonly Talk[]; alive: readonly Talk[] },
) {
  const [dead, living] = await Promise.all([
    Promise.all(ended.map((talk) => talk.dies())),
    Promise.all(alive.map((talk) => talk.lives())),
  ])
  t.same([dead, living], [ended.map(() => true), alive.map(() => true)], what)
}

/** The id by which conntrack knows the established connection to a port. */
export function entry(router: Netns, port: number): string | undefined {
  const list = router.run('conntrack', '-L', '-p', 'tcp', '--orig-port-dst', String(port), '-o', 'id')
  return /ESTABLISHED.* id=(\d+)/.exec(list)?.[1]
}

/** Whether conntrack forgets it, soon. */
export async function forgotten(router: Netns, id: string | undefined, port: number): Promise<boolean> {
  for (const end = Date.now() + 3000; Date.now() < end; ) {
    if (id !== undefined && entry(router, port) !== id) return true
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  return false
}
