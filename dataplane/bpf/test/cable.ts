/** A peer on the other end of a veth pair, for test files that run in a namespace of their own (inside.ts). */
import { type Netns, netns, type Scope } from '../../../test/netns.ts'
import { ifindex, run } from './support.ts'

/** Addresses of this end and of the peer's. */
export const HERE = '198.18.0.1'
export const THERE = '198.18.0.2'

export interface Cable {
  peer: Netns
  /** Index of `near`, the end in this process's namespace. */
  index: number
  /** Deletes the pair, as when the machine behind it goes away. */
  unplug(): void
}

/** Lays `near` in this namespace to `far` in a new one, with addresses on both ends; removed at the end. */
export function cable(t: Scope): Cable {
  const peer = netns(t, 'peer')
  run('ip', 'link', 'add', 'near', 'type', 'veth', 'peer', 'name', 'far', 'netns', peer.name)
  run('ip', 'address', 'add', `${HERE}/24`, 'dev', 'near')
  run('ip', 'link', 'set', 'near', 'up')
  peer.run('ip', 'address', 'add', `${THERE}/24`, 'dev', 'far')
  peer.run('ip', 'link', 'set', 'far', 'up')
  let plugged = true
  const unplug = () => {
    if (plugged) run('ip', 'link', 'del', 'near')
    plugged = false
  }
  t.teardown(unplug)
  return { peer, index: ifindex('near'), unplug }
}

/** Sends `count` echo requests from the peer; the number that were answered. */
export function ping(peer: Netns, count: number): number {
  const script = `ping -n -q -c ${count} -i 0.002 -W 1 ${HERE} || true`
  return Number(/ ([0-9]+) received/.exec(peer.run('sh', '-c', script))?.[1])
}

/** Sends echo requests while `meanwhile` runs; how many of the `count` were lost. */
export async function lossWhile(
  peer: Netns,
  count: number,
  meanwhile: (ended: () => boolean) => Promise<void>,
): Promise<number> {
  const traffic = peer.spawn('ping', ['-n', '-q', '-c', String(count), '-i', '0.002', '-W', '1', HERE])
  const output: Buffer[] = []
  traffic.stdout?.on('data', (chunk: Buffer) => output.push(chunk))
  let ended = false
  const end = new Promise<void>((resolve) => {
    traffic.once('close', () => {
      ended = true
      resolve()
    })
  })
  await meanwhile(() => ended)
  await end
  return count - Number(/ ([0-9]+) received/.exec(Buffer.concat(output).toString())?.[1])
}
