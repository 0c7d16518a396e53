/** What others do to objects of ours in the kernel; each finds one by `draw`, a number from 0 to 1, or does nothing. */
import type { Netns } from '../netns.ts'

export interface Meddling {
  meddle(ns: Netns, draw: number): void
  /** The streams cannot pass while this is not repaired. */
  disturbs?: true
}

/** Lines of a command's output, none of what streams rest on. */
function one(ns: Netns, draw: number, command: string): string[] | undefined {
  const lines = ns.run('sh', '-c', `${command} || true`).split('\n').filter(Boolean)
  return lines[Math.floor(draw * lines.length)]?.trim().split(/\s+/)
}

const run = (ns: Netns, line: string) => void ns.run('sh', '-c', line)

export const MEDDLING: Readonly<Record<string, Meddling>> = {
  route_deleted: {
    meddle(ns, draw) {
      const found = one(ns, draw, 'ip -4 route show table all proto 201')
      if (found) run(ns, `ip route del ${found.join(' ')}`)
    },
  },
  route_added: {
    meddle: (ns) => run(ns, 'ip route add 10.253.0.0/24 via 198.51.100.2 proto 201'),
  },
  policy_deleted: {
    meddle(ns, draw) {
      const [priority] = one(ns, draw, "ip -4 rule show | grep 'proto 201'") ?? []
      if (priority) run(ns, `ip -4 rule del priority ${priority.replace(':', '')}`)
    },
  },
  address_deleted: {
    meddle(ns, draw) {
      const [address] = one(ns, draw, `ip -o -4 address show dev eth0 | grep -o '198.51.100.1[5-9][0-9]/32'`) ?? []
      if (address) run(ns, `ip address del ${address} dev eth0`)
    },
  },
  overlay_deleted: {
    meddle(ns, draw) {
      const [name] = one(ns, draw, "ip -o link show type vxlan | sed 's/^[0-9]*: //; s/:.*//'") ?? []
      if (name) run(ns, `ip link del ${name}`)
    },
  },
  overlay_down: {
    meddle(ns, draw) {
      const [name] = one(ns, draw, "ip -o link show type vxlan | sed 's/^[0-9]*: //; s/:.*//'") ?? []
      if (name) run(ns, `ip link set ${name} down`)
    },
  },
  bridge_deleted: {
    meddle(ns, draw) {
      const [name] = one(ns, draw, "ip -o link show type bridge | sed 's/^[0-9]*: //; s/:.*//' | grep br-s") ?? []
      if (name) run(ns, `ip link del ${name}`)
    },
  },
  element_deleted: {
    meddle(ns, draw) {
      const listing = ns.run('nft', 'list', 'map', 'inet', 'stratum', 'nat_forward4').replaceAll(/\s+/g, ' ')
      const all = Array.from(listing.matchAll(/[\d.]+ \. 2\d{4} : [\d.]+ \. \d+/g), ([it]) => it)
      const element = all[Math.floor(draw * all.length)]
      if (element) ns.run('nft', `delete element inet stratum nat_forward4 { ${element.split(' : ')[0]} }`)
    },
  },
  element_added: {
    meddle: (ns) => void ns.run('nft', 'add element inet stratum nat_forward4 { 198.51.100.1 . 31999 : 10.9.0.3 . 9 }'),
  },
  table_deleted: {
    meddle: (ns) => void ns.run('nft', 'delete table inet stratum'),
    disturbs: true,
  },
  ruleset_flushed: {
    meddle: (ns) => void ns.run('nft', 'flush table inet stratum'),
    disturbs: true,
  },
}
