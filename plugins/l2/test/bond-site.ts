/** Cables from the node to a far side, and what iproute2 says of either; imported after test/inside.ts. */
import { execFileSync } from 'node:child_process'
import { setTimeout } from 'node:timers/promises'
import { PATIENCE } from '../../../test/kernel-features.ts'
import type { Netns } from '../../../test/netns.ts'

/** Runs a command in the namespace of this process; throws with its stderr when it fails. */
export const run = (command: string, ...args: string[]): string =>
  execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })

/** A pair of devices: `near` of this process's namespace, down, and `far` over there, up. */
export function cable(far: Netns, near: string, other: string): void {
  run('ip', 'link', 'add', near, 'type', 'veth', 'peer', 'name', other, 'netns', far.name)
  far.run('ip', 'link', 'set', other, 'up')
}

export interface LinkNow {
  ifname: string
  mtu: number
  master?: string
  flags: string[]
  address: string
  ifalias?: string
  ifindex: number
  linkinfo?: { info_data?: Record<string, unknown>; info_slave_data?: Record<string, unknown> }
}

/** Undefined when there is no such device. */
export function linkNow(name: string): LinkNow | undefined {
  return (JSON.parse(run('ip', '-j', '-d', 'link', 'show')) as LinkNow[]).find(({ ifname }) => ifname === name)
}

/** Looks again until it is so; throws with what it saw last when it takes too long. */
export async function until<T>(what: string, look: () => T | Promise<T>, holds: (seen: T) => boolean): Promise<T> {
  const deadline = Date.now() + 20_000 * PATIENCE
  for (;;) {
    const seen = await look()
    if (holds(seen)) return seen
    if (Date.now() > deadline) throw new Error(`still not so: ${what}; ${JSON.stringify(seen)}`)
    await setTimeout(50)
  }
}

/** Echo requests every 20 ms from `ns`, until stopped; then how many were sent and lost. */
export function pinging(ns: Netns, address: string): { stop(): Promise<{ sent: number; lost: number }> } {
  const child = ns.spawn('ping', ['-n', '-q', '-i', '0.02', '-W', '1', address])
  let said = ''
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  return {
    async stop() {
      const gone = new Promise((resolve) => child.once('close', resolve))
      // ping prints its statistics then; nsenter and setpriv have become it.
      child.kill('SIGINT')
      await gone
      const [, sent = 0, received = 0] = (/(\d+) packets transmitted, (\d+) received/.exec(said) ?? []).map(Number)
      if (sent === 0) throw new Error(`ping said nothing of use: ${said}`)
      return { sent, lost: sent - received }
    },
  }
}
