/**
 * Virtual addresses by nft alone, on a node whose kernel has no place for the programs. Conntrack holds connections where
 * they are and is their only list, so what it does not do is not to be had: to prefer the backend with the fewest
 * connections, and direct server return. Pure.
 */
import type { Chain, Entry, OrderedRule } from '../../entry.ts'
import { TABLE } from '../../nft/text.ts'
import { LB_ROUND_ROBIN, LINK_PREFIX, WORK_BRIDGE } from '../../numbers.ts'
import type { VipBackend, VipEntry } from './entries.ts'
import { fill, isLive, pickOf } from './ring.ts'

const [PREROUTING, OUTPUT, BALANCE] = ['lb_prerouting', 'lb_output', 'lb_balance'] as const
/** Who serves, where the client is hidden, and where connections end that nobody serves. */
export const FALLBACK_LISTS = [BALANCE, 'lb_postrouting', 'lb_input'] as const
/** Where packets come in, and where those of the node itself begin. */
export const FALLBACK_CHAINS = [PREROUTING, OUTPUT] as const

/** Right before the destination NAT of other areas. The node's own packets meet `lb_input` by the loopback device. */
export const fallbackSkeleton = `
add chain ${TABLE} ${BALANCE}
add chain ${TABLE} ${PREROUTING} { type nat hook prerouting priority -101; policy accept; }
add chain ${TABLE} ${OUTPUT} { type nat hook output priority -101; policy accept; }
add chain ${TABLE} lb_postrouting { type nat hook postrouting priority 99; policy accept; }
add chain ${TABLE} lb_input { type filter hook input priority 0; policy accept; }
`

/** What there is besides the rules of virtual addresses. */
export const fallbackChains: readonly Chain[] = FALLBACK_CHAINS.map((chain) => ({
  kind: 'chain',
  key: `lb/${chain}`,
  chain,
  rules: [`jump ${BALANCE}`],
}))

/** Whether an entry is part of how nft balances. */
export function isFallback(entry: Entry | undefined): boolean {
  if (entry?.kind === 'rule') return FALLBACK_LISTS.some((list) => list === entry.list)
  return entry?.kind === 'chain' && FALLBACK_CHAINS.some((chain) => chain === entry.chain)
}

/** Slots of a table of Maglev: prime, and what nft takes at once without delay. */
const SLOTS = 1021

/** Answers of a backend come back by this node by themselves when it is behind one of these. */
const INSIDE = [WORK_BRIDGE, `${LINK_PREFIX}*`]

/** The part of an entry that nft cannot carry out, and why; undefined where it can do all. */
export function beyondNft({
  algorithm,
  dsr,
}: Pick<VipEntry, 'algorithm' | 'dsr'>): { field: 'algorithm' | 'dsr_enabled'; detail: string } | undefined {
  if (algorithm === 'least-conn') return { field: 'algorithm', detail: 'least-conn needs the eBPF load balancer' }
  if (dsr) return { field: 'dsr_enabled', detail: 'direct server return needs the eBPF load balancer' }
  return undefined
}

/**
 * The rules of one virtual address. `order` is unique among them; those for a single port come before those for every
 * port. What nft cannot do is not done otherwise: such an address refuses connections as if it had no backend.
 */
export function fallbackRules(entry: VipEntry, order: number): OrderedRule[] {
  const { id, port, protocol } = entry
  const rule = (list: (typeof FALLBACK_LISTS)[number], part: number, text: string): OrderedRule => {
    return { kind: 'rule', key: `lb/nft/${id}/${part}`, list, rank: [port === 0 ? 1 : 0, order, part], text }
  }
  const match = `${ip(entry)} daddr ${entry.address} ${port === 0 ? `meta l4proto ${protocol}` : `${protocol} dport ${port}`}`
  const live = beyondNft(entry) === undefined ? entry.backends.filter(isLive) : []
  const [first] = live
  if (first === undefined) {
    return [
      // Turned to where it goes anyway, so that neither a VIP for every port nor a port forward turns it elsewhere.
      rule(BALANCE, 0, `${match} dnat ${ip(entry)} to ${entry.address}`),
      rule('lb_input', 9, `${match} ${protocol === 'tcp' ? 'reject with tcp reset' : 'drop'}`),
    ]
  }
  const asked = [
    `meta l4proto ${protocol} ct status dnat ct original ${ip(entry)} daddr ${entry.address}`,
    ...(port === 0 ? [] : [`ct original proto-dst ${port}`]),
  ].join(' ')
  const outside = INSIDE.map((name) => `oifname != "${name}"`).join(' ')
  return [
    rule(BALANCE, 0, `${match} dnat ${ip(entry)} to ${live.length === 1 ? alone(first) : choice(entry, live)}`),
    rule('lb_postrouting', 1, `${asked} ${outside} masquerade`),
    // A client there would be answered past this node.
    ...INSIDE.map((name, at) => rule('lb_postrouting', at + 2, `${asked} iifname "${name}" masquerade`)),
  ]
}

const ip = ({ address }: VipEntry): 'ip' | 'ip6' => (address.includes(':') ? 'ip6' : 'ip')

function alone({ address, port }: VipBackend): string {
  if (port === 0) return address
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}

const target = ({ address, port }: VipBackend): string => (port === 0 ? address : `${address} . ${port}`)

const mapped = (targets: readonly string[]) => `map { ${targets.map((it, n) => `${n} : ${it}`).join(', ')} }`

function choice(entry: VipEntry, live: readonly VipBackend[]): string {
  const { algorithm, protocol } = entry
  const targets = live.map(target)
  if (pickOf(algorithm) === LB_ROUND_ROBIN) return `numgen inc mod ${targets.length} ${mapped(targets)}`
  const slots = Buffer.alloc(SLOTS)
  fill(
    slots,
    live.map(({ id, weight }, place) => ({ id, weight, place })),
  )
  const by = algorithm === 'source-hash' ? `${ip(entry)} saddr` : `${ip(entry)} saddr . ${protocol} sport`
  return `jhash ${by} mod ${SLOTS} seed 0x1 ${mapped(Array.from(slots, (place) => targets[place] ?? ''))}`
}
