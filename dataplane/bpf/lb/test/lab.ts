/**
 * A node with an uplink and a private network. The process itself is the node (test/inside.ts): clients are behind `up0`,
 * backends on `br-work`, and further backends beside the clients.
 */
import { rmSync } from 'node:fs'
import { type Netns, netns, type Scope } from '../../../../test/netns.ts'
import { keepBridgedFramesFromHooks } from '../../../bridge-netfilter.ts'
import type { Entry, Passage } from '../../../entry.ts'
import { NETLINK_ROUTE } from '../../../netlink/bind.ts'
import { openNetlink } from '../../../netlink/socket.ts'
import { type OpenClassifier, openClassifier } from '../../firewall/open.ts'
import { attachingHere, bpffs, run } from '../../test/support.ts'
import type { VipBackend, VipEntry } from '../entries.ts'
import { type OpenBalancer, openBalancer } from '../open.ts'
import { type Machine, machine } from './machine.ts'

export const VIP = '203.0.113.10'
export const VIP6 = '2001:db8:ff::10'
export const CLIENT = '198.51.100.2'
export const NODE = '198.51.100.1'
export const backendAddress = (n: number): string => `10.9.0.${10 + n}`
export const backendAddress6 = (n: number): string => `fd09::${10 + n}`
/** Of a backend on the uplink's own network. */
export const outsideAddress = (n: number): string => `198.51.100.${10 + n}`

export const outsideAddress6 = (n: number): string => `2001:db8:1::${10 + n}`

export interface Lab {
  client: Machine
  /** Makes a machine beside the client. */
  outside(n: number): Machine
  /** On br-work, by their numbers from 1. */
  backends: Machine[]
  root: string
  classifier: OpenClassifier
  balancer: OpenBalancer
  problems: unknown[]
  apply(...passages: Passage[]): Promise<() => Promise<void>>
  put(entry: VipEntry, before?: VipEntry): Promise<() => Promise<void>>
  /** Ends the driver as an agent that stops, and opens it anew. */
  reopen(): Promise<void>
}

const ip = (line: string) => run('ip', ...line.split(' '))

/** Makes machines with `count` backends, and opens the load balancer in this process. */
export async function lab(t: Scope, count: number): Promise<Lab> {
  // Else the firewall would judge what backends answer while it is bridged (see `detail` of the load balancer).
  keepBridgedFramesFromHooks()
  ip('link add br-work type bridge mcast_snooping 0')
  ip('link set br-work up')
  for (const address of ['10.9.0.1/24', 'fd09::1/64']) ip(`address add ${address} dev br-work${detected(address)}`)
  t.teardown(() => ip('link del br-work'))
  const segment = netns(t, 's')
  segment.run('ip', 'link', 'add', 'sw', 'type', 'bridge', 'mcast_snooping', '0')
  segment.run('ip', 'link', 'set', 'sw', 'up')
  ip(`link add up0 type veth peer name node netns ${segment.name}`)
  ip('link set up0 up')
  segment.run('ip', 'link', 'set', 'node', 'master', 'sw', 'up')
  const outside = (label: string, ...addresses: string[]) => {
    const ns = netns(t, label)
    ns.run('ip', 'link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', ns.name.slice(-15), 'netns', segment.name)
    segment.run('ip', 'link', 'set', ns.name.slice(-15), 'master', 'sw', 'up')
    for (const address of addresses) {
      ns.run('ip', 'address', 'add', address, 'dev', 'eth0', ...(address.includes(':') ? ['nodad'] : []))
    }
    ns.run('ip', 'link', 'set', 'eth0', 'up')
    return ns
  }
  const clientNs = outside('c', '198.51.100.2/24', '2001:db8:1::2/64')
  for (const address of [`${NODE}/24`, '2001:db8:1::1/64']) ip(`address add ${address} dev up0${detected(address)}`)
  for (const address of [`${VIP}/32`, `${VIP6}/128`]) ip(`address add ${address} dev lo`)
  clientNs.run('ip', 'route', 'add', '203.0.113.0/24', 'via', NODE)
  clientNs.run('ip', '-6', 'route', 'add', '2001:db8:ff::/48', 'via', '2001:db8:1::1')
  const backends: Machine[] = []
  for (let n = 1; n <= count; n++) {
    const ns = netns(t, 'b')
    plug(t, ns, `port${n}`, [`${backendAddress(n)}/24`, `${backendAddress6(n)}/64`])
    ip(`link set port${n} master br-work`)
    ns.run('ip', 'route', 'add', 'default', 'via', '10.9.0.1')
    ns.run('ip', '-6', 'route', 'add', 'default', 'via', 'fd09::1')
    backends.push(machine(ns))
  }
  reaches(clientNs, NODE, '2001:db8:1::1')
  for (const { ns } of backends) reaches(ns, '10.9.0.1', 'fd09::1')
  // What it found out about its neighbours by that.
  for (const family of ['-4', '-6']) ip(`${family} neighbour flush dev br-work`)
  const root = bpffs(t)
  const problems: unknown[] = []
  const onProblem = (error: unknown) => void problems.push(error)
  const route = openNetlink(NETLINK_ROUTE)
  const classifier = await openClassifier({ root, onProblem })
  await classifier.defaults.apply([{ after: { kind: 'filter_default', key: 'firewall/default', accept: true } }])
  const attaching = await attachingHere(t)
  const open = () => openBalancer({ root, route, attaching, onProblem })
  const it: Lab = {
    client: machine(clientNs),
    outside(n) {
      const ns = outside('o', `${outsideAddress(n)}/24`, `${outsideAddress6(n)}/64`)
      reaches(ns, NODE, '2001:db8:1::1')
      return machine(ns)
    },
    backends,
    root,
    classifier,
    balancer: await open(),
    problems,
    async apply(...passages) {
      const undo = await it.balancer.driver.apply(passages)
      return undo ?? (async () => {})
    },
    put: (entry, before) => it.apply({ after: entry, ...(before && { before }) }),
    async reopen() {
      await it.balancer.driver.close()
      it.balancer = await open()
    },
  }
  t.teardown(async () => {
    await it.balancer.driver.close()
    await classifier.close()
    await route.close()
    rmSync(`${root}/lb`, { recursive: true, force: true })
    rmSync(`${root}/firewall`, { recursive: true, force: true })
  })
  return it
}

/** Waits until the ways stand: devices come up, and bridges take to their ports, after what asked for it has returned. */
function reaches(ns: Netns, ...addresses: string[]): void {
  for (const address of addresses) ns.run('ping', '-n', '-q', '-c', '1', '-i', '0.2', '-w', '20', address)
}

/** Without duplicate address detection, which would leave an address out of use for a while. */
const detected = (address: string) => (address.includes(':') ? ' nodad' : '')

/** A cable from the node's device `name` to `eth0` of a namespace, with addresses there. */
export function plug(t: Scope, ns: Netns, name: string, addresses: readonly string[]): void {
  ip(`link add ${name} type veth peer name eth0 netns ${ns.name}`)
  ip(`link set ${name} up`)
  for (const address of addresses) {
    ns.run('ip', 'address', 'add', address, 'dev', 'eth0', ...(address.includes(':') ? ['nodad'] : []))
  }
  ns.run('ip', 'link', 'set', 'eth0', 'up')
  t.teardown(() => {
    try {
      ip(`link del ${name}`)
    } catch {
      // Went with its namespace.
    }
  })
}

export const backend = (n: number, more: Partial<VipBackend> = {}): VipBackend => ({
  id: `b${n}`,
  address: backendAddress(n),
  port: 8080,
  weight: 1,
  state: 'up',
  ...more,
})

export const vip = (more: Partial<VipEntry> = {}): VipEntry => ({
  kind: 'vip',
  key: `lb/vip/${more.id ?? 'web'}`,
  id: 'web',
  address: VIP,
  port: 80,
  protocol: 'tcp',
  algorithm: 'round-robin',
  dsr: false,
  backends: [],
  ...more,
})

/** How often each came first in the answers. */
export function tallied(answers: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const answer of answers) {
    const name = answer.split(' ')[0] ?? ''
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}

export const desired = (...entries: VipEntry[]): Entry[] => entries
