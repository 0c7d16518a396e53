/** Who reaches which port of a node. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { ClusterNode } from '../../../test/cluster.ts'
import type { Netns } from '../../../test/netns.ts'

const CONNECT = `
const [host, port, localAddress] = process.argv.slice(1)
const socket = require('node:net').connect({ host, port, ...(localAddress && { localAddress }) })
socket.once('error', () => process.exit(1))
socket.once('connect', () => console.log('connected'))
process.stdin.pipe(socket)`

/** Whether a connection from there comes about; `from`: another address of that namespace. */
export async function reaches(ns: Netns, { address }: ClusterNode, port: number, from = ''): Promise<boolean> {
  // What was dropped is not answered, so it is given up after a retransmission.
  const script = `setTimeout(() => process.exit(1), 1500);${CONNECT};socket.once('connect', () => process.exit(0))`
  const child = spawn('ip', ['netns', 'exec', ns.name, process.execPath, '-e', script, address, String(port), from])
  const [code] = await once(child, 'close')
  return code === 0
}

/** A connection that stands and is silent; `unheard` tells how much of what it says then is not acknowledged. */
export async function hold(ns: Netns, { address }: ClusterNode, port: number) {
  const child = spawn('ip', ['netns', 'exec', ns.name, process.execPath, '-e', CONNECT, address, String(port)])
  await once(child.stdout, 'data')
  return {
    async unheard(): Promise<number> {
      child.stdin.write('x'.repeat(100))
      await new Promise((resolve) => setTimeout(resolve, 1000))
      const line = ns.run(
        'ss',
        '-Htn',
        'dst',
        address.includes(':') ? `[${address}]` : address,
        'dport',
        '=',
        String(port),
      )
      return Math.max(...line.split('\n').map((one) => Number(one.trim().split(/\s+/)[2] ?? 0)))
    },
    end: () => child.kill(),
  }
}

/** The ports of a node's door and of its etcd. */
export const PORTS = [7073, 7074] as const

/** Of both ports, the door first. */
export const seenFrom = (ns: Netns, node: ClusterNode, from?: string): Promise<boolean[]> =>
  Promise.all(PORTS.map((port) => reaches(ns, node, port, from)))
