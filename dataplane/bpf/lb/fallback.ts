/**
 * Virtual addresses by nft alone, on a node whose kernel has no place for the programs. Conntrack holds connections where
 * they are; a change of the backends gives most clients another one for their next connection. Nobody counts connections,
 * so least-conn is not to be had, nor is direct server return. Pure.
 */
import type { OrderedRule } from '../../entry.ts'
import { TABLE } from '../../nft/text.ts'
import { WORK_BRIDGE } from '../../numbers.ts'
import { KernelRefusal } from '../../plane.ts'
import type { VipBackend, VipEntry } from './entries.ts'
import { isLive } from './ring.ts'

/** Where packets come in, where the node's own begin, where the client is hidden, and where those nobody serves end. */
export const FALLBACK_LISTS = ['lb_prerouting', 'lb_output', 'lb_postrouting', 'lb_input'] as const

/** Right before the destination NAT of other areas. The node's own packets meet `lb_input` by the loopback device. */
export const fallbackSkeleton = `
add chain ${TABLE} lb_prerouting { type nat hook prerouting priority -101; policy accept; }
add chain ${TABLE} lb_output { type nat hook output priority -101; policy accept; }
add chain ${TABLE} lb_postrouting { type nat hook postrouting priority 99; policy accept; }
add chain ${TABLE} lb_input { type filter hook input priority 0; policy accept; }
`

/** Slots of a map at most: what nft takes at once without delay. */
const SLOTS = 1024

/**
 * The rules of one virtual address. `order` is unique among them; those for a single port come before those for every port.
 * @throws KernelRefusal for what nft cannot do
 */
export function fallbackRules(entry: VipEntry, order: number): OrderedRule[] {
  const { id, port, protocol, algorithm, dsr } = entry
  if (algorithm === 'least-conn')
    throw new KernelRefusal('least-conn needs the eBPF programs (Linux 6.6): choose another algorithm')
  if (dsr) throw new KernelRefusal('direct server return needs the eBPF programs (Linux 6.6)')
  const rank = [port === 0 ? 1 : 0, order]
  const rule = (list: (typeof FALLBACK_LISTS)[number], part: number, text: string): OrderedRule => {
    return { kind: 'rule', key: `lb/fallback/${id}/${list}/${part}`, list, rank: [...rank, part], text }
  }
  const match = `${ip(entry)} daddr ${entry.address} ${port === 0 ? `meta l4proto ${protocol}` : `${protocol} dport ${port}`}`
  const slots = slotsOf(entry.backends.filter(isLive))
  if (slots.length === 0) {
    return [rule('lb_input', 0, `${match} ${protocol === 'tcp' ? 'reject with tcp reset' : 'drop'}`)]
  }
  const to = `${match} dnat ${ip(entry)} to ${choice(entry, slots.length)} map { ${slots.map((it, n) => `${n} : ${target(it)}`).join(', ')} }`
  const asked = [
    `meta l4proto ${protocol} ct status dnat ct original ${ip(entry)} daddr ${entry.address}`,
    ...(port === 0 ? [] : [`ct original proto-dst ${port}`]),
  ].join(' ')
  return [
    rule('lb_prerouting', 0, to),
    rule('lb_output', 0, to),
    // Only from behind br-work does the answer come back by this node by itself, unless the client is there, too.
    rule('lb_postrouting', 0, `${asked} oifname != "${WORK_BRIDGE}" masquerade`),
    rule('lb_postrouting', 1, `${asked} iifname "${WORK_BRIDGE}" masquerade`),
  ]
}

const ip = ({ address }: VipEntry): 'ip' | 'ip6' => (address.includes(':') ? 'ip6' : 'ip')

const target = ({ address, port }: VipBackend): string => (port === 0 ? address : `${address} . ${port}`)

function choice(entry: VipEntry, slots: number): string {
  const source = `${ip(entry)} saddr`
  if (entry.algorithm === 'round-robin') return `numgen inc mod ${slots}`
  if (entry.algorithm === 'source-hash') return `jhash ${source} mod ${slots} seed 0x1`
  return `jhash ${source} . ${entry.protocol} sport mod ${slots} seed 0x1`
}

/** Each backend as often as its weight says, in the smallest numbers that have this proportion, or nearly. */
function slotsOf(live: readonly VipBackend[]): VipBackend[] {
  const weights = live.map(({ weight }) => weight)
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  const divisor = total / weights.reduce(gcd, 0) > SLOTS ? total / SLOTS : weights.reduce(gcd, 0)
  return live.flatMap((backend) => Array<VipBackend>(Math.max(1, Math.round(backend.weight / divisor))).fill(backend))
}

const gcd = (a: number, b: number): number => (b === 0 ? a : gcd(b, a % b))
