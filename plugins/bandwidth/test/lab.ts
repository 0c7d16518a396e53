/** A node with guests on one open network, and traffic between them. */

import type { AgentOptions } from '../../../test/agent.ts'
import type { Netns, Scope } from '../../../test/netns.ts'
import { until } from '../../../test/segment.ts'
import { type Guest, type WorkloadNode, workloadNode } from '../../../test/workload.ts'

export const BANDWIDTH = '/api/v1/bandwidth'
export const POOLS = `${BANDWIDTH}/pools`
export const QUOTAS = `${BANDWIDTH}/quotas`
/** Ethernet, IP and UDP headers. */
const HEADERS = 42

export interface Place {
  node: WorkloadNode
  guests: Guest[]
  /** Of guest n, from 1 on. */
  mac(n: number): string
  address(n: number): string
  guest(n: number): Guest
  /** Lets guest `from` send to guest `to` at a rate (bits a second on the wire) until it is stopped. */
  send(from: number, to: number, rate: number): Stream
  /** Bits a second on the wire that came to a guest within a time. */
  rateInto(n: number, ms?: number): Promise<number>
  /** Waits until something is true of the node, whose test takes a while. */
  until(what: string, holds: () => boolean | Promise<boolean>): Promise<void>
}

export interface Stream {
  /** Ends it; resolves to how many datagrams were sent when the last has been. */
  stop(): Promise<number>
}

export const macOf = (n: number): string => `02:00:00:00:77:${n.toString(16).padStart(2, '0')}`
const addressOf = (n: number): string => `10.77.0.${n}`

/** Guests 1 to `count`, every one of which has been heard. */
export async function place(t: Scope, count: number, options: Partial<AgentOptions> = {}): Promise<Place> {
  const node = await workloadNode(t, { ...options, config: { uplink: 'lo', ...options.config } })
  const guests = Array.from({ length: count }, (_, at) =>
    node.guest('g', { mac: macOf(at + 1), addresses: [`${addressOf(at + 1)}/24`] }),
  )
  await node.guarded(...guests)
  const guest = (n: number): Guest => {
    const found = guests[n - 1]
    if (found === undefined) throw new RangeError(`there is no guest ${n}`)
    return found
  }
  for (let n = 1; n <= count; n++) {
    const other = n === 1 ? 2 : 1
    if (count > 1 && !guest(n).reaches(addressOf(other))) throw new Error(`guest ${n} does not reach guest ${other}`)
  }
  return {
    node,
    guests,
    mac: macOf,
    address: addressOf,
    guest,
    send: (from, to, rate) => stream(guest(from).ns, addressOf(to), rate),
    rateInto: (n, ms = 1500) => rateInto(guest(n).ns, ms),
    until: (what, holds) => until(what, holds),
  }
}

/** What came to `eth0`. */
export function countersOf(ns: Netns): { bytes: number; packets: number } {
  const [found] = JSON.parse(ns.run('ip', '-j', '-s', 'link', 'show', 'eth0')) as [
    { stats64: { rx: { bytes: number; packets: number } } },
  ]
  return found.stats64.rx
}

const MEASURE = `
const { readFileSync } = require('node:fs')
const bytes = () => Number(/eth0: *([0-9]+)/.exec(readFileSync('/proc/self/net/dev', 'latin1'))[1])
const since = performance.now()
const first = bytes()
setTimeout(() => {
  const last = bytes()
  process.stdout.write(String((last - first) * 8000 / (performance.now() - since)))
}, Number(process.argv[1]))
`

/**
 * Bits a second that came to `eth0`. By the clock of who reads, from before the first reading to after the last: however slow
 * the machine is, the rate does not look higher than it is.
 */
export async function rateInto(ns: Netns, ms: number): Promise<number> {
  const child = ns.spawn(process.execPath, ['-e', MEASURE, String(ms)])
  let said = ''
  child.stdout?.on('data', (bytes: Buffer) => {
    said += bytes.toString()
  })
  await new Promise((resolve) => child.once('close', resolve))
  if (said === '') throw new Error('nothing was measured')
  return Number(said)
}

const MEASURE_PORTS = `
const { readFileSync } = require('node:fs')
const [ms, ...ports] = process.argv.slice(1)
const bytes = () => {
  const all = readFileSync('/proc/self/net/dev', 'latin1')
  return ports.map((port) => Number(all.split(port + ':')[1].trim().split(/ +/)[8]))
}
const since = performance.now()
const first = bytes()
setTimeout(() => {
  const last = bytes()
  const span = performance.now() - since
  process.stdout.write(JSON.stringify(last.map((it, n) => (it - first[n]) * 8000 / span)))
}, Number(ms))
`

/** Bits a second that go to guests, all within one and the same time: what one gets more the other gets less. */
export async function ratesInto({ node, guest }: Place, guests: readonly number[], ms: number): Promise<number[]> {
  const ports = guests.map((n) => guest(n).port)
  const child = node.ns.spawn(process.execPath, ['-e', MEASURE_PORTS, String(ms), ...ports])
  let said = ''
  child.stdout?.on('data', (bytes: Buffer) => {
    said += bytes.toString()
  })
  await new Promise((resolve) => child.once('close', resolve))
  return JSON.parse(said) as number[]
}

const SEND = `
const [address, rate, size] = process.argv.slice(1)
const socket = require('node:dgram').createSocket(address.includes(':') ? 'udp6' : 'udp4')
const since = performance.now()
let sent = 0
let flying = 0
let ended = false
const bytes = Buffer.alloc(Number(size))
const timer = setInterval(() => {
  const due = (performance.now() - since) / 1000 * Number(rate) / 8 / (Number(size) + ${HEADERS})
  // What was missed while the process did not run is not made up for at once.
  for (let n = 0; sent + flying < due && n < 200; n++) {
    flying++
    bytes.writeUInt32BE(sent + flying)
    socket.send(Buffer.from(bytes), 9999, address, () => { flying--; sent++; finish() })
  }
}, 2)
const finish = () => {
  if (!ended || flying > 0) return
  process.stdout.write(String(sent))
  socket.close()
}
process.on('SIGTERM', () => { ended = true; clearInterval(timer); finish() })
process.stdout.write('go ')
`

export function stream(ns: Netns, address: string, rate: number, size = 1400): Stream {
  const child = ns.spawn(process.execPath, ['-e', SEND, address, String(rate), String(size)])
  let said = ''
  child.stdout?.on('data', (bytes: Buffer) => {
    said += bytes.toString()
  })
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  return {
    async stop() {
      const signal = AbortSignal.timeout(20_000)
      while (!said.startsWith('go ')) {
        signal.throwIfAborted()
        await new Promise((wait) => setTimeout(wait, 10))
      }
      child.kill('SIGTERM')
      await ended
      return Number(said.slice(3))
    },
  }
}

/** Devices of the node that limited frames wait on. */
export const pairsOf = ({ node }: Place): string[] =>
  (JSON.parse(node.ns.run('ip', '-j', 'link', 'show', 'type', 'veth')) as { ifname: string }[])
    .map(({ ifname }) => ifname)
    .filter((name) => name.startsWith('stshape'))
    .sort()
