/** What the tests of flows on real nodes share. */
import { once } from 'node:events'
import type { Scope } from '../../../test/netns.ts'
import { type Guest, type WorkloadNode, workloadNode } from '../../../test/workload.ts'
import type { Flow } from '../schemas.ts'

export const P = '/api/v1'
export const [A, B] = ['192.0.2.1', '192.0.2.2']
/** Ethernet, IPv4, UDP; and TCP with time stamps (RFC 7323), which a SYN has more options than. */
export const UDP_HEADERS = 14 + 20 + 8
export const [TCP_HEADERS, SYN_HEADERS] = [14 + 20 + 32, 14 + 20 + 40]

export interface Pair {
  node: WorkloadNode
  a: Guest
  b: Guest
}

/** A node with two guests on open ports, which know each other. */
export async function pair(t: Scope, options: Parameters<typeof workloadNode>[1] = {}): Promise<Pair> {
  const node = await workloadNode(t, options)
  const a = node.guest('a', { addresses: [`${A}/24`], mac: '02:00:00:00:00:0a' })
  const b = node.guest('b', { addresses: [`${B}/24`], mac: '02:00:00:00:00:0b' })
  // Acknowledgements have no more options then than others.
  for (const { ns } of [a, b]) ns.run('sysctl', '-qw', 'net.ipv4.tcp_sack=0')
  await node.guarded(a, b)
  if (!a.reaches(B)) throw new Error('the guests do not reach each other')
  return { node, a, b }
}

/** Binds a guest to an endpoint of a network that is made for it. Resolves with its MAC. */
export async function bind(node: WorkloadNode, network: string, guest: Guest, ip: string): Promise<string> {
  const wanted = { machine: guest.port, network, ip, port: guest.port }
  const { nic } = (await node.ok('POST', '/control/v1/compute/machines', wanted)) as { nic: { mac: string } }
  guest.setMac(nic.mac)
  guest.ns.run('ip', 'address', 'add', `${ip}/24`, 'dev', 'eth0')
  return nic.mac
}

export async function network(node: WorkloadNode, cidr: string): Promise<string> {
  const { network } = await node.ok('POST', `${P}/networks`, { name: cidr.replace('/', '-'), cidr })
  return (network as { id: string }).id
}

export async function flows(node: WorkloadNode, query = ''): Promise<Flow[]> {
  const { flows, count } = (await node.ok('GET', `${P}/flows${query}`)) as { flows: Flow[]; count: number }
  if (flows.length !== count) throw new Error(`${flows.length} flows, but count is ${count}`)
  return flows
}

const SEND = `
const [, to, port, size, count] = process.argv
const socket = require('node:dgram').createSocket('udp4')
let left = Number(count)
const next = () => (left-- > 0 ? socket.send(Buffer.alloc(Number(size)), Number(port), to, next) : socket.close())
socket.bind(Number(port), next)
`
/** Sends so many datagrams of so many bytes, from the port that they go to. */
export async function datagrams({ ns }: Guest, to: string, port: number, size: number, count: number): Promise<void> {
  const child = ns.spawn(process.execPath, ['-e', SEND, to, String(port), String(size), String(count)])
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`the sender ended with ${code}`)
}

const SINK = `
const [, port] = process.argv
require('node:dgram').createSocket('udp4').bind(Number(port), () => console.log('listening'))
`
/** Takes datagrams at a port, so that nobody is told that there is none. */
export async function sink({ ns }: Guest, port: number): Promise<void> {
  const { stdout } = ns.spawn(process.execPath, ['-e', SINK, String(port)])
  if (stdout === null) throw new TypeError('no output')
  await once(stdout, 'data')
}

const SERVE = `
const [, up, down] = process.argv.map(Number)
require('node:net').createServer({ allowHalfOpen: true }, (c) => {
  let left = up
  c.on('data', (data) => { left -= data.length; if (left === 0) c.write(Buffer.alloc(down)) })
  c.on('end', () => c.end())
  c.on('error', () => {})
}).listen(5001, () => console.log('listening'))
`
const CONNECT = `
const [, to, up, down] = process.argv
const c = require('node:net').connect(5001, to)
let left = Number(down)
c.write(Buffer.alloc(Number(up)))
c.on('data', (data) => { left -= data.length; if (left === 0) console.log('done') })
process.stdin.on('end', () => c.end()).resume()
process.on('SIGUSR2', () => c.resetAndDestroy())
c.on('close', () => process.exit())
`

export interface Exchange {
  /** What the kernel of the end that began has counted: segments and bytes. */
  sent(): Record<'segs_out' | 'segs_in' | 'bytes_sent' | 'bytes_received', number>
  /** Closes both directions in order; resolves when that is done. */
  close(): Promise<void>
  /** Ends without a word but a reset. */
  abort(): void
}

/** `a` sends `up` bytes to port 5001 of `b`, which answers with `down` bytes; then both wait. */
export async function exchange(a: Guest, b: Guest, to: string, up: number, down: number): Promise<Exchange> {
  const server = b.ns.spawn(process.execPath, ['-e', SERVE, String(up), String(down)])
  if (server.stdout === null) throw new TypeError('no output')
  await once(server.stdout, 'data')
  const client = a.ns.spawn(process.execPath, ['-e', CONNECT, to, String(up), String(down)], {
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const { stdin, stdout } = client
  if (stdout === null || stdin === null) throw new TypeError('no output')
  await once(stdout, 'data')
  return {
    sent() {
      const text = a.ns.run('ss', '-tinHO', 'state', 'established', 'dport', '= :5001')
      const value = (name: string) => Number(new RegExp(`\\b${name}:(\\d+)`).exec(text)?.[1])
      return {
        segs_out: value('segs_out'),
        segs_in: value('segs_in'),
        bytes_sent: value('bytes_sent'),
        bytes_received: value('bytes_received'),
      }
    },
    async close() {
      const gone = once(client, 'exit')
      stdin.end()
      await gone
      const over = once(server, 'exit')
      server.kill()
      await over
    },
    abort() {
      client.kill('SIGUSR2')
    },
  }
}
