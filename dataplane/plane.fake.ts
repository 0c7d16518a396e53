/** A plane in memory for tests of areas: keeps entries by key and can be told to refuse. */
import { type Filter, type FilterPacket, type FilterVerdict, type Hits, NO_FILTER } from './bpf/firewall/filter.ts'
import { NO_TRAFFIC } from './bpf/flow/traffic.ts'
import type { Balancer } from './bpf/lb/balancer.ts'
import { NO_PORTS } from './bpf/port/open.ts'
import { NO_CONNECTIONS } from './connections.ts'
import { NO_DEVICES } from './devices.ts'
import type { Entry, Passage, Undo } from './entry.ts'
import { reversed } from './entry.ts'
import { NO_BGP } from './frr/bgp.ts'
import { BGP_KINDS } from './frr/entries.ts'
import { NO_DEFAULT_ROUTE } from './netlink/default-route.ts'
import { NETLINK_KINDS } from './netlink/entries.ts'
import type { Plane } from './plane.ts'
import type { LeaseListener } from './responder/driver.ts'
import { RESPONDER_KINDS } from './responder/entries.ts'
import type { LeaseEvent } from './responder/protocol.ts'
import { SHAPING_KINDS } from './shaping/entries.ts'
import type { Shaping } from './shaping/open.ts'
import type { Usage } from './shaping/quotas.ts'

export interface FakePlane extends Plane {
  /** What was used of quotas, by their numbers. */
  readonly used: Map<number, Usage>
  /** Tells that a quota came near its limit or reached it. */
  tellQuota(): void
  /** What a backend serves, by `<vip>/<backend>`. */
  readonly connected: Map<string, number>
  readonly entries: Map<string, Entry>
  /** When set, the next `apply` throws it and applies nothing. */
  refuse?: Error | undefined
  /** Number of passages applied so far. */
  applied: number
  /** Set it after changing `entries`: what the plane then says of others, until it is observed. */
  meddled: boolean
  /** Tells of a lease as the responder does; resolves when it is stored. */
  tell(...news: LeaseEvent[]): Promise<void>
  /** With the classifier: what it says of every packet, which packets it was asked about, and the hits of rules by id. */
  readonly judged: { verdict: FilterVerdict; packets: FilterPacket[]; hits: Map<number, Hits> }
}

export interface FakeOptions {
  /** The firewall's rules are judged by the classifier; otherwise by nft. */
  classifier?: boolean
  /** false: nft balances. */
  balancer?: boolean
}

const KINDS: Plane['kinds'] = new Set([
  ...(['rule', 'chain', 'element', 'forwarding'] as const),
  ...(['net', 'binding', 'macbind', 'vlan', 'tenant_net', 'uplink', 'overlay', 'peer', 'closing'] as const),
  ...NETLINK_KINDS,
  ...RESPONDER_KINDS,
  ...SHAPING_KINDS,
  ...BGP_KINDS,
])

const FACILITIES = ['nft', 'netlink', 'bonding', 'port', 'responder', 'shaping', 'bgp']

export function fakePlane({ classifier = false, balancer: accelerated = true }: FakeOptions = {}): FakePlane {
  const entries = new Map<string, Entry>()
  const connected = new Map<string, number>()
  const balancer: Balancer = {
    accelerated,
    activeConnections: (vip, backend) => connected.get(`${vip}/${backend}`) ?? 0,
    detail: () => 'a plane in memory',
  }
  const used = new Map<number, Usage>()
  let quotaListener = () => {}
  const shaping: Shaping = {
    usage: ({ number }) => used.get(number),
    setMonth: () => {},
    onQuota(next) {
      quotaListener = next
      return () => {
        quotaListener = () => {}
      }
    },
  }
  let listener: LeaseListener | undefined
  let seq = 0
  const judged: FakePlane['judged'] = { verdict: { accept: true, probes: 0 }, packets: [], hits: new Map() }
  const walk = (diff: readonly Passage[]) => {
    for (const { before, after } of diff) {
      if (before) entries.delete(before.key)
      if (after) entries.set(after.key, after)
    }
    plane.applied += diff.length
  }
  const plane: FakePlane = {
    entries,
    connected,
    balancer,
    shaping,
    used,
    tellQuota: () => quotaListener(),
    bgp: NO_BGP,
    applied: 0,
    meddled: false,
    kinds: new Set([
      ...KINDS,
      ...(classifier ? (['filter', 'filter_default'] as const) : []),
      accelerated ? 'vip' : 'left_balancer',
    ]),
    check: () => [
      ...FACILITIES.map((name) => ({ name, available: true, detail: 'fake' })),
      { name: 'balancer', available: accelerated, detail: 'fake' },
      { name: 'classifier', available: classifier, detail: classifier ? plane.filter.detail() : 'a plane in memory' },
    ],
    async observe() {
      plane.meddled = false
      return [...entries.values()]
    },
    changedByOthers: async () => plane.meddled,
    pending: () => [],
    async apply(diff): Promise<Undo> {
      await new Promise(setImmediate)
      const refusal = plane.refuse
      plane.refuse = undefined
      if (refusal) throw refusal
      walk(diff)
      return async () => walk(reversed(diff))
    },
    // Rejecting keeps tests deterministic: background work on connections ends at once and changes nothing.
    connections: { ...NO_CONNECTIONS, list: () => Promise.reject(new Error('a plane in memory has no connections')) },
    defaultRoute: NO_DEFAULT_ROUTE,
    devices: { ...NO_DEVICES },
    ports: NO_PORTS,
    traffic: NO_TRAFFIC,
    judged,
    filter: classifier ? fakeFilter(entries, judged) : NO_FILTER,
    leases: {
      onLease(next) {
        listener = next
        return () => {
          listener = undefined
        }
      },
    },
    tell: async (...news) => listener?.(news.map((event) => ({ ...event, seq: ++seq }))),
    addExpiring: async () => {},
    holds: async (set, element) =>
      [...entries.values()].some((it) => it.kind === 'element' && it.set === set && it.element === element),
    close: async () => {},
  }
  return plane
}

function fakeFilter(entries: ReadonlyMap<string, Entry>, judged: FakePlane['judged']): Filter {
  const rules = () => [...entries.values()].filter(({ kind }) => kind === 'filter').length
  return {
    accelerated: true,
    count: (id) => judged.hits.get(id),
    async trace(packet) {
      judged.packets.push(packet)
      return judged.verdict
    },
    detail: () => `eBPF classifier, ${rules()} rules in 0 tables`,
  }
}
