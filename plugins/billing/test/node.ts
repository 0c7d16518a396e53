/** A node with tenants whose guests send and receive, and what of it arrives. */
import type { ChildProcess } from 'node:child_process'
import { join } from 'node:path'
import { layoutDir } from '../../../dataplane/bpf/bpffs.ts'
import { type Codec, u32 } from '../../../dataplane/bpf/codec.ts'
import { openMap } from '../../../dataplane/bpf/map.ts'
import { tenantNetRow } from '../../../dataplane/bpf/port/layout.ts'
import type { Guest, WorkloadNode } from '../../../test/workload.ts'

const P = '/api/v1'

/** Directory of the node's pins. */
export const pins = ({ ns }: Pick<WorkloadNode, 'ns'>): string => layoutDir(`/sys/fs/bpf/${ns.name}`)

/** What the kernel holds for billing: net → row, and whether there is any. */
export function dump(node: Pick<WorkloadNode, 'ns'>) {
  const rows = <V>(name: string, value: Codec<V>): [number, V][] => {
    const map = openMap(join(pins(node), name), u32, value)
    const all = [...map.entries()]
    map.close()
    return all.sort(([a], [b]) => a - b)
  }
  return { nets: rows('tenant_nets', tenantNetRow), any: rows('any_tenant_net', u32)[0]?.[1] }
}
export const NOTHING = { nets: [], any: 0 }

export async function addTenant(node: WorkloadNode, name: string): Promise<string> {
  return ((await node.ok('POST', `${P}/tenant`, { name })).tenant as { id: string }).id
}

export async function addNetwork(node: WorkloadNode, fields: object): Promise<string> {
  return ((await node.ok('POST', `${P}/networks`, fields)).network as { id: string }).id
}

/** A network 10.0.0.0/24 of a tenant, in which the node is the gateway 10.0.0.254, with guests at .1, .2, …; its id. */
export async function addLan(node: WorkloadNode, tenant: string, ...guests: Guest[]): Promise<string> {
  const gateway = { gateway: '10.0.0.254', host_gateway: true }
  const lan = await addNetwork(node, { name: 'lan', cidr: '10.0.0.0/24', ...gateway, tenant_id: tenant })
  for (const [at, guest] of guests.entries()) await place(node, lan, guest, `10.0.0.${at + 1}`)
  return lan
}

/** Two tenants: one with a network as of `addLan`, the other with 10.1.0.0/24 and guests at .1, .2, … Their ids. */
export async function twoTenants(node: WorkloadNode, own: readonly Guest[], others: readonly Guest[]) {
  const [acme, other] = [await addTenant(node, 'acme'), await addTenant(node, 'other')]
  await addLan(node, acme, ...own)
  const theirs = await addNetwork(node, { name: 'theirs', cidr: '10.1.0.0/24', tenant_id: other })
  for (const [at, guest] of others.entries()) await place(node, theirs, guest, `10.1.0.${at + 1}`)
  return { acme, other }
}

/** Binds an endpoint at the guest's port and gives the guest its MAC and address. */
export async function place(node: WorkloadNode, network: string, guest: Guest, ip: string): Promise<void> {
  const wanted = { machine: guest.port, network, ip, port: guest.port }
  const { nic } = await node.ok('POST', '/control/v1/compute/machines', wanted)
  guest.setMac((nic as { mac: string }).mac)
  guest.ns.run('ip', 'address', 'add', `${ip}/24`, 'dev', 'eth0')
}

export const act = (node: WorkloadNode, tenant: string, action: string, body?: object) =>
  node.ok('POST', `${P}/billing/tenants/${tenant}/${action}`, body)

/** Sends datagrams of 1228 bytes on the wire, so many bits a second, to each of the addresses. */
const FLOOD = `
const [, rate, ...addresses] = process.argv
const socket = require('node:dgram').createSocket('udp4').on('error', () => {})
const data = Buffer.alloc(1186)
let sent = 0
const since = performance.now()
setInterval(() => {
  const due = (performance.now() - since) / 1000 * Number(rate) / 8 / 1228
  for (let most = 2000; sent < due && most > 0; most--, sent++) for (const to of addresses) socket.send(data, 9, to)
  sent = Math.max(sent, due - 1)
}, 2)
`
export const flood = ({ ns }: Pick<Guest, 'ns'>, rate: number, ...addresses: string[]): ChildProcess =>
  ns.spawn(process.execPath, ['-e', FLOOD, String(rate), ...addresses])

/** An interface, of a guest unless another is named. */
export type Measured = Pick<Guest, 'ns'> & { device?: string }

/** Bits a second that it has got and sent, over so many seconds. */
export interface Seen {
  rx: number
  tx: number
  seconds: number
}

/** What goes through each interface, by its own counters, within at least `ms`. */
export async function measured(ms: number, ...places: readonly Measured[]): Promise<Seen[]> {
  const read = () => places.map((place) => ({ at: performance.now(), ...bytes(place) }))
  const before = read()
  await new Promise((wait) => setTimeout(wait, ms))
  return read().map(({ at, rx, tx }, n) => {
    const old = before[n] ?? { at: 0, rx: 0, tx: 0 }
    const seconds = (at - old.at) / 1000
    return { rx: ((rx - old.rx) * 8) / seconds, tx: ((tx - old.tx) * 8) / seconds, seconds }
  })
}

/** In place of a device: all that the IP stack of a namespace gets and sends. */
export const STACK = 'ip'

function bytes({ ns, device = 'eth0' }: Measured): { rx: number; tx: number } {
  if (device === STACK) return octets(ns.run('cat', '/proc/net/netstat'))
  const [link] = JSON.parse(ns.run('ip', '-s', '-j', 'link', 'show', 'dev', device)) as {
    stats64: Record<'rx' | 'tx', { bytes: number }>
  }[]
  return { rx: link?.stats64.rx.bytes ?? 0, tx: link?.stats64.tx.bytes ?? 0 }
}

/** InOctets and OutOctets of IpExt. */
function octets(netstat: string): { rx: number; tx: number } {
  const [names = [], values = []] = netstat
    .split('\n')
    .filter((line) => line.startsWith('IpExt:'))
    .map((line) => line.split(' '))
  const value = (name: string) => Number(values[names.indexOf(name)] ?? 0)
  return { rx: value('InOctets'), tx: value('OutOctets') }
}
