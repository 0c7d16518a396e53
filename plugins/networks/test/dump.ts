/** The rows of the programs on the ports of a node, as their pinned maps hold them. */
import { join } from 'node:path'
import { layoutDir } from '../../../dataplane/bpf/bpffs.ts'
import { type Codec, u32 } from '../../../dataplane/bpf/codec.ts'
import { openMap } from '../../../dataplane/bpf/map.ts'
import * as layout from '../../../dataplane/bpf/port/layout.ts'
import type { WorkloadNode } from '../../../test/workload.ts'

/** Directory of the node's pins. */
export const pins = ({ ns }: Pick<WorkloadNode, 'ns'>): string => layoutDir(`/sys/fs/bpf/${ns.name}`)

/** What the agent has written, apart from what is counted: rows of each map as text, sorted. Empty maps are left out. */
export function portDump(node: Pick<WorkloadNode, 'ns'>): Record<string, string[]> {
  const dir = pins(node)
  const rows = <K, V>(name: string, key: Codec<K>, value: Codec<V>, absent?: V): string[] => {
    const map = openMap(join(dir, name), key, value)
    const all = [...map.entries()].filter(([, it]) => it !== absent).map((pair) => JSON.stringify(pair))
    map.close()
    return all.sort()
  }
  const maps = {
    by_mac: rows('by_mac', layout.endpointKey, layout.endpointRow),
    addresses: rows('addresses', layout.addressKey, layout.addressRow),
    net_of_mac: rows('net_of_mac', layout.mac, u32),
    private_ranges: rows('private_ranges', layout.prefixKey, u32),
    host_ranges: rows('host_ranges', layout.prefixKey, u32),
    nets: rows('nets', u32, layout.netRow),
    vlans: rows('vlans', u32, u32, 0),
    macbinds: rows('macbinds', layout.mac, layout.macbindRow),
    locks: rows('locks', u32, u32),
    settings: rows('settings', u32, u32, 0),
  }
  return Object.fromEntries(Object.entries(maps).filter(([, found]) => found.length > 0))
}
