/** The compiled programs of br-work and their maps, typed. */
import { fileURLToPath } from 'node:url'
import {
  HOOK_HOST_IN,
  HOOK_HOST_OUT,
  HOOK_PORT_IN,
  HOOK_PORT_OUT,
  HOOK_SHAPED_DOWN,
  HOOK_SHAPED_UP,
  HOOK_UPLINK_IN,
  HOOK_UPLINK_OUT,
} from '../../numbers.ts'
import { perCpu, u32, u64 } from '../codec.ts'
import { flowKey4, flowKey6, flowRow, usageRow } from '../flow/layout.ts'
import { possibleCpus } from '../map.ts'
import type { BpfObject } from '../object.ts'
import {
  addressKey,
  addressRow,
  bucketRow,
  endpointKey,
  endpointRow,
  formerRow,
  hostRow,
  linkKey,
  mac,
  macbindRow,
  netRow,
  outsideRow,
  prefixKey,
  tenantNetRow,
  violationKey,
  violationRow,
} from './layout.ts'

/** Where the build puts the object of bpf/src/port.bpf.c. */
export const PORT_OBJECT = fileURLToPath(new URL('../src/port.bpf.o', import.meta.url))

/** Program of the object to its slot in map `programs`. Attached is not the program but the stub `hook_<program>`. */
export const HOOKS = {
  port_in: HOOK_PORT_IN,
  port_out: HOOK_PORT_OUT,
  uplink_in: HOOK_UPLINK_IN,
  uplink_out: HOOK_UPLINK_OUT,
  host_in: HOOK_HOST_IN,
  host_out: HOOK_HOST_OUT,
} as const
export type Hook = keyof typeof HOOKS

/** The same for the ends of the pairs on which limited frames wait (dataplane/shaping). */
export const QUEUE_HOOKS = { shaped_up: HOOK_SHAPED_UP, shaped_down: HOOK_SHAPED_DOWN } as const

export type PortMaps = ReturnType<typeof portMaps>

/**
 * The maps of a loaded object; bpf/src/maps.h says what each holds and who writes it. Valid until the object is closed.
 * `ports` is written by a `PortTable`, `slots` by a `SlotTable`, `programs` with `swap`, its values being descriptors.
 */
export function portMaps(object: BpfObject) {
  return {
    programs: object.map('programs', u32, u32),
    ports: object.map('ports', u32, u64),
    byMac: object.map('by_mac', endpointKey, endpointRow),
    slots: object.map('slots', u32, u64),
    addresses: object.map('addresses', addressKey, addressRow),
    links6: object.map('links6', linkKey, u32),
    formers: object.map('formers', mac, formerRow),
    formerPorts: object.map('former_ports', mac, u32),
    netOfMac: object.map('net_of_mac', mac, u32),
    privateRanges: object.map('private_ranges', prefixKey, u32),
    hostRanges: object.map('host_ranges', prefixKey, u32),
    nets: object.map('nets', u32, netRow),
    vlans: object.map('vlans', u32, u32),
    far: object.map('far', endpointKey, u32),
    peers: object.map('peers', mac, u32),
    outside: object.map('outside', mac, outsideRow),
    outsideBits: object.map('outside_bits', u32, u32),
    hosts: object.map('hosts', u32, hostRow),
    macbinds: object.map('macbinds', mac, macbindRow),
    locks: object.map('locks', u32, u32),
    settings: object.map('settings', u32, u32),
    tenantNets: object.map('tenant_nets', u32, tenantNetRow),
    anyTenantNet: object.map('any_tenant_net', u32, u32),
    buckets: object.map('buckets', u32, bucketRow),
    violations: object.map('violations', violationKey, violationRow),
    told: object.map('told', u32, u64),
    tallies: object.map('tallies', u32, perCpu(u64, possibleCpus())),
    flows4: object.map('flows4', flowKey4, flowRow),
    flows6: object.map('flows6', flowKey6, flowRow),
    flowsOff: object.map('flows_off', u32, u32),
    usageBound: object.map('usage_bound', mac, usageRow),
    usageOpen: object.map('usage_open', mac, usageRow),
    /** Descriptor of the ring buffer of violations. */
    events: object.mapFd('events'),
  }
}
