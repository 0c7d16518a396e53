/**
 * A node in a network namespace for one firewall: packets come in by in0 to in3, everything is routed to out0, and there it
 * is recorded and ends. Nothing of it talks by itself, so what is counted is what was sent.
 */
import { execFileSync } from 'node:child_process'
import { inNamespace } from '../../dataplane/libc.ts'
import type { Netns } from '../netns.ts'
import { DEVICES } from './rulesets.ts'

/** Where packets can be sent: a network namespace, by its file, and the number of each device in it. */
export interface Place {
  path: string
  index: ReadonlyMap<string, number>
}

export interface Lane extends Place {
  ns: Netns
  /** Removes what conntrack knows. */
  forget(): void
  /** Replaces the ruleset of nft in it; only for the lanes of a test. */
  nft(text: string): void
}

/** Where packets leave. */
export const EXIT = 'out0'
/** What the packets are addressed to, in the order of inject.bpf.c. */
const NODE_MAC = '02:fa:00:00:00:01'
const FAR_MAC = '02:fa:00:00:00:02'
const NEXT_HOP = { 4: '198.19.0.2', 6: 'fd00:99::2' } as const

/** Makes the devices and routes of a lane in `ns`, which goes with all of it. */
export function lane(ns: Netns): Lane {
  const devices = [...DEVICES, EXIT]
  sysctl(ns, 'ipv6.conf.default', { accept_dad: 0, router_solicitations: 0, accept_ra: 0 })
  const links = devices.flatMap((name) => [
    `link add ${name} address ${NODE_MAC} type veth peer name far_${name} address ${FAR_MAC}`,
    ...[name, `far_${name}`].flatMap((end) => [`link set ${end} addrgenmode none`, `link set ${end} up`]),
  ])
  ipBatch(ns, [
    ...links,
    `address add 198.19.0.1/24 dev ${EXIT}`,
    `address add fd00:99::1/64 dev ${EXIT} nodad`,
    ...Object.values(NEXT_HOP).map((hop) => `neighbour add ${hop} lladdr ${FAR_MAC} dev ${EXIT}`),
    `route add default via ${NEXT_HOP[4]} dev ${EXIT}`,
    `route add default via ${NEXT_HOP[6]} dev ${EXIT}`,
  ])
  sysctl(ns, 'ipv4', { ip_forward: 1 })
  sysctl(ns, 'ipv6.conf.all', { forwarding: 1 })
  for (const name of ['all', ...devices]) sysctl(ns, `ipv4.conf.${name}`, { rp_filter: 0, send_redirects: 0 })
  // So that conntrack runs, whose settings are there only then.
  const nft = (text: string) => {
    execFileSync('nsenter', [`--net=${ns.path}`, 'nft', '-f', '-'], { input: text, stdio: ['pipe', 'ignore', 'pipe'] })
  }
  nft('add table inet track; add chain inet track c { type filter hook forward priority 0; ct state invalid; }')
  sysctl(ns, 'netfilter', {
    nf_conntrack_checksum: 0,
    nf_conntrack_udp_timeout: 3600,
    nf_conntrack_udp_timeout_stream: 3600,
  })
  return {
    ns,
    path: ns.path,
    index: new Map(devices.map((name) => [name, indexOf(ns, name)])),
    forget: () => void ns.run('conntrack', '-F'),
    nft,
  }
}

function ipBatch(ns: Netns, lines: readonly string[]): void {
  execFileSync('ip', ['-n', ns.name, '-batch', '-'], {
    input: `${lines.join('\n')}\n`,
    stdio: ['pipe', 'ignore', 'pipe'],
  })
}

function sysctl(ns: Netns, where: string, settings: Readonly<Record<string, number>>): void {
  ns.run('sysctl', '-qw', ...Object.entries(settings).map(([name, value]) => `net.${where}.${name}=${value}`))
}

function indexOf(ns: Netns, name: string): number {
  const [found] = JSON.parse(ns.run('ip', '-j', 'link', 'show', 'dev', name)) as { ifindex: number }[]
  if (found === undefined) throw new Error(`${ns.name} has no ${name}`)
  return found.ifindex
}

/** Runs `body` at once with this thread in the lane's namespace. */
export const within = <T>({ path }: Place, body: () => T): T => inNamespace(path, body)
