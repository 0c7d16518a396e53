/** The firewalls that are compared, each on a node of its own that drops behind it whatever is new. */
import { execFileSync } from 'node:child_process'
import type { FilterRule } from '../../dataplane/bpf/firewall/entries.ts'
import type { Injector } from '../firewall/inject.ts'
import { hasIptables, linearIptables, RESTORE } from '../firewall/iptables.ts'
import { EXIT, type Lane, lane } from '../firewall/lane.ts'
import { judging, linearNft } from '../firewall/nft-text.ts'
import { type Ours, openOurs } from '../firewall/ours.ts'
import type { Packet } from '../firewall/packets.ts'
import { type Netns, netns, type Scope } from '../netns.ts'

export interface Contender {
  name: 'floor' | 'ours' | 'nft' | 'iptables'
  lane: Lane
  /** Puts these rules in force, then drop. The floor has none and lets through only what is for `open`. */
  hold(rules: readonly FilterRule[], open?: string): Promise<void>
}

export interface Contest {
  all: Contender[]
  ours: Ours
  /** Says which are missing. */
  missing: string[]
}

const FLOOR = 'ct state new drop'

/** `home` is the namespace of this process, in which alone the classifier can stand; `root` lies on a bpf filesystem. */
export async function contest(scope: Scope, home: Netns, root: string): Promise<Contest> {
  const mine = lane(home)
  const ours = await openOurs(scope, mine, root)
  const others = { floor: lane(netns(scope, 'floor')), nft: lane(netns(scope, 'nft')) }
  const all: Contender[] = [
    {
      name: 'floor',
      lane: others.floor,
      async hold(_rules, open) {
        others.floor.nft(judging([...(open ? [`ip daddr ${open} accept`] : []), FLOOR]))
      },
    },
    { name: 'ours', lane: mine, hold: (rules) => ours.hold(rules, false) },
    { name: 'nft', lane: others.nft, hold: async (rules) => others.nft.nft(linearNft(rules, false)) },
  ]
  if (!hasIptables()) return { all, ours, missing: ['iptables-legacy (apt-get install iptables)'] }
  const legacy = lane(netns(scope, 'ipt'))
  all.push({ name: 'iptables', lane: legacy, hold: async (rules) => restore(legacy, rules) })
  return { all, ours, missing: [] }
}

function restore(lane: Lane, rules: readonly FilterRule[]): void {
  for (const family of [4, 6] as const) {
    const input = linearIptables(rules, family)
    execFileSync('nsenter', [`--net=${lane.path}`, RESTORE[family]], { input, stdio: ['pipe', 'ignore', 'pipe'] })
  }
}

/** Behind every firewall: what it lets through is as short as what it drops, and stays new. */
const CUT =
  'table inet cut { chain new { type filter hook prerouting priority -100; policy accept; ct state new drop; }; }'

export const cut = ({ lane }: Contender): void => lane.nft(CUT)
export const uncut = ({ lane }: Contender): void => lane.nft('delete table inet cut')

/** Makes connections of `flows` by a packet in each direction; to be called before the lane judges anything. */
export async function establish(injector: Injector, { lane }: Contender, flows: readonly Packet[]): Promise<void> {
  for (const part of [flows, flows.map(answer)]) {
    await injector.load(part)
    if (!injector.sendOnce(lane).every(Boolean)) throw new Error('a packet got lost where nothing judges')
  }
}

const answer = ({ source, dest, sourcePort, destPort, ...packet }: Packet): Packet => ({
  ...packet,
  source: dest,
  dest: source,
  sourcePort: destPort,
  destPort: sourcePort,
  interface: EXIT,
})
