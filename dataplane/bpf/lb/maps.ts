/** The maps of bpf/src/lb.bpf.c that the agent reads and writes. */
import { LB_BACKENDS } from '../../numbers.ts'
import { perCpu, u32, u64 } from '../codec.ts'
import { type BpfMap, possibleCpus } from '../map.ts'
import { type Mapping, mapMemory } from '../mapped.ts'
import type { BpfObject } from '../object.ts'
import { HINT_BYTES, Hints } from './hints.ts'
import {
  BACKEND_BYTES,
  BackendRows,
  type Family,
  type Flow,
  type Frontend,
  flow,
  frontend,
  type Label,
  label,
  type SettingsRow,
  settingsRow,
  sharers,
  type Tuple,
  tuple,
  type VipRow,
  vipRow,
} from './rows.ts'

export interface BalancerMaps {
  vips: Record<Family, BpfMap<Frontend, VipRow>>
  served: Record<Family, BpfMap<Frontend, readonly Frontend[]>>
  /** What clients have begun, and the connections that came of it. */
  begun: Record<Family, BpfMap<Tuple, Flow>>
  flows: Record<Family, BpfMap<Tuple, Flow>>
  rings: BpfMap<number, number>
  labels: BpfMap<number, Label>
  settings: BpfMap<number, SettingsRow>
  /** By ifindex, of those with a role: LB_INSIDE. */
  devices: BpfMap<number, number>
  tallies: BpfMap<number, bigint[]>
  backends: BackendRows
  hints: Hints
  /** Connections by row, signed. */
  active: BigInt64Array
  close(): void
}

export function balancerMaps(object: BpfObject): BalancerMaps {
  const mapped: Mapping[] = []
  const memory = (name: string, bytes: number) => {
    const mapping = mapMemory(object.mapFd(name), bytes, name)
    mapped.push(mapping)
    return mapping.buffer
  }
  const vips = (family: Family) => object.map(`lb_vips${family}`, frontend(family), vipRow)
  const served = (family: Family) => object.map(`lb_served${family}`, frontend(family), sharers(family))
  const flows = (name: 'begun' | 'flows', family: Family) =>
    object.map(`lb_${name}${family}`, tuple(family), flow(family))
  return {
    vips: { 4: vips(4), 6: vips(6) },
    served: { 4: served(4), 6: served(6) },
    begun: { 4: flows('begun', 4), 6: flows('begun', 6) },
    flows: { 4: flows('flows', 4), 6: flows('flows', 6) },
    rings: object.map('lb_rings', u32, u32),
    labels: object.map('lb_labels', u32, label),
    settings: object.map('lb_settings', u32, settingsRow),
    devices: object.map('lb_devices', u32, u32),
    tallies: object.map('lb_tallies', u32, perCpu(u64, possibleCpus())),
    backends: new BackendRows(memory('lb_backends', LB_BACKENDS * BACKEND_BYTES)),
    hints: new Hints(memory('lb_hints', HINT_BYTES)),
    active: new BigInt64Array(memory('lb_active', LB_BACKENDS * 8)),
    close() {
      for (const mapping of mapped) mapping.unmap()
    },
  }
}
