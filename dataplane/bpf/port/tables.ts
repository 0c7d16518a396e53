/** What an entry asks of the maps, apart from the rows of its own that a binding has. Pure, but for the maps it names. */
import {
  LOCK_HARD,
  LOCK_SOFT,
  MAC_AMBIGUOUS,
  NET_DHCP,
  NET_HOST_GATEWAY,
  NET_ROUTED,
  ROUTED_NET_BASE,
  SETTING_CLOSED,
  SETTING_LOCK,
  SETTING_MACBIND,
  SETTING_PEERS,
  STAMP_ROUTED,
  TENANT_BLOCKED,
  VLAN_LOCKED,
} from '../../numbers.ts'
import type { Binding, MacBinding, Net, PortEntry, TenantNet } from './entries.ts'
import type { AddressKey, AddressRow, FormerRow, MacbindRow, NetRow, PrefixKey, TenantNetRow } from './layout.ts'
import type { PortMaps } from './maps.ts'
import { BINDINGS_EXIST, BINDINGS_NAME_PORTS, NO_DEVICE } from './numbers.ts'
import { type Rows, Shares } from './shares.ts'

function highest(asked: Iterable<number>): number {
  let most = 0
  for (const one of asked) most = Math.max(most, one)
  return most
}
/** Unsigned, as the map holds it. */
function allBits(asked: Iterable<number>): number {
  let all = 0
  for (const one of asked) all = (all | one) >>> 0
  return all
}
/** Rows that only one can ask for. */
const theOne = <V>(asked: Iterable<V>): V => {
  const [first] = asked
  if (first === undefined) throw new TypeError('a row that nobody asks for')
  return first
}

/** 0 where they differ. */
function onlyOne(asked: Iterable<number>): number {
  const all = new Set(asked)
  return all.size === 1 ? highest(all) : 0
}

function mergeNets(asked: Iterable<NetRow>): NetRow {
  const rows = [...asked]
  return {
    gateway: rows.find(({ gateway }) => gateway !== NO_ADDRESS)?.gateway ?? NO_ADDRESS,
    vlan: highest(rows.map(({ vlan }) => vlan)),
    flags: allBits(rows.map(({ flags }) => flags)),
  }
}

const NO_ADDRESS = '0.0.0.0'

export type Tables = ReturnType<typeof sharedTables>

/** The maps that entries share, by their names in `PortMaps`. */
export const sharedTables = (maps: PortMaps) => ({
  nets: new Shares<number, NetRow>({ map: maps.nets, merge: mergeNets }),
  privateRanges: new Shares<PrefixKey, number>({ map: maps.privateRanges, merge: highest }),
  hostRanges: new Shares<PrefixKey, number>({ map: maps.hostRanges, merge: theOne }),
  netOfMac: new Shares<string, number>({
    map: maps.netOfMac,
    merge: (nets) => {
      let one: number | undefined
      for (const net of nets) {
        if (one !== undefined && one !== net) return MAC_AMBIGUOUS
        one = net
      }
      return one ?? 0
    },
  }),
  formers: new Shares<string, FormerRow>({ map: maps.formers, merge: theOne, spare: true }),
  addresses: new Shares<AddressKey, AddressRow>({ map: maps.addresses, merge: theOne }),
  vlans: new Shares<number, number>({ map: maps.vlans, merge: allBits, absent: 0 }),
  peers: new Shares<string, number>({ map: maps.peers, merge: onlyOne }),
  macbinds: new Shares<string, MacbindRow>({ map: maps.macbinds, merge: theOne }),
  locks: new Shares<number, number>({ map: maps.locks, merge: highest }),
  settings: new Shares<number, number>({ map: maps.settings, merge: highest, absent: 0 }),
  tenantNets: new Shares<number, TenantNetRow>({ map: maps.tenantNets, merge: theOne }),
  anyTenantNet: new Shares<number, number>({ map: maps.anyTenantNet, merge: theOne, absent: 0 }),
})

/** What one entry asks for, table by table; a table that is not named gets nothing. */
export interface Wishes {
  nets?: Rows<number, NetRow>
  privateRanges?: Rows<PrefixKey, number>
  hostRanges?: Rows<PrefixKey, number>
  netOfMac?: Rows<string, number>
  formers?: Rows<string, FormerRow>
  addresses?: Rows<AddressKey, AddressRow>
  vlans?: Rows<number, number>
  peers?: Rows<string, number>
  macbinds?: Rows<string, MacbindRow>
  locks?: Rows<number, number>
  settings?: Rows<number, number>
  tenantNets?: Rows<number, TenantNetRow>
  anyTenantNet?: Rows<number, number>
}

/** What an entry needs to know besides itself. */
export interface Surroundings {
  /** ifindex of a guarded port by its name. */
  port(name: string): number | undefined
  /** ifindex of a guarded port that leads off the node. */
  overlay(name: string): number | undefined
  /** Slot of a binding by its key; it has one. */
  slot(key: string): number
}

export function wishesOf(entry: PortEntry, around: Surroundings): Wishes {
  switch (entry.kind) {
    case 'net':
      return ofNet(entry)
    case 'binding':
      return ofBinding(entry, around.slot(entry.key))
    case 'macbind':
      return ofMacBinding(entry, entry.port === '' ? 0 : around.port(entry.port))
    case 'vlan':
      return { vlans: [[entry.vlan, VLAN_LOCKED]] }
    case 'tenant_net':
      return ofTenantNet(entry)
    case 'peer': {
      const ifindex = around.overlay(entry.link)
      return ifindex === undefined ? {} : { peers: [[entry.mac, ifindex]], settings: [[SETTING_PEERS, 1]] }
    }
    case 'closing':
      return { settings: [[SETTING_CLOSED, 1]] }
    case 'former':
      return { formers: [[entry.mac, { net: entry.net, address: entry.address }]] }
    case 'uplink':
    case 'overlay':
    case 'stray':
      return {}
  }
}

function ofNet({ net, cidr, gateway = NO_ADDRESS, vlan = 0, hostGateway, dhcp = false }: Net): Wishes {
  if (net >= ROUTED_NET_BASE || cidr === undefined) return {}
  const range = prefix(cidr)
  return {
    nets: [[net, { gateway, vlan, flags: (hostGateway ? NET_HOST_GATEWAY : 0) | (dhcp ? NET_DHCP : 0) }]],
    privateRanges: [[range, 1]],
    ...(hostGateway && { hostRanges: [[range, net]] }),
    ...(vlan > 0 && { vlans: [[vlan, net]] }),
  }
}

function ofBinding({ net, address, mac, routed }: Binding, slot: number): Wishes {
  const alone = net >= ROUTED_NET_BASE
  // Without an endpoint in a private network, the address that the binding is known by is a routed one itself.
  const used = alone ? [address, ...routed] : routed
  return {
    netOfMac: [[mac, net]],
    addresses: routed.map((one) => [
      { net, address: one },
      { slot, routed: 1 },
    ]),
    privateRanges: used.map((one) => [prefix(`${one}/32`), 1]),
    hostRanges: used.map((one) => [prefix(`${one}/32`), (net | STAMP_ROUTED) >>> 0]),
    ...(!alone && routed.length > 0 && { nets: [[net, { gateway: NO_ADDRESS, vlan: 0, flags: NET_ROUTED }]] }),
  }
}

/** `ifindex` is 0 for every port, and undefined while the named one is away: its MAC is then admitted nowhere. */
function ofMacBinding({ mac, vlan, mode }: MacBinding, ifindex: number | undefined): Wishes {
  const lock = mode === 'hard' ? LOCK_HARD : LOCK_SOFT
  const macbinds: Rows<string, MacbindRow> = [[mac, { ifindex: ifindex ?? NO_DEVICE, vlan, lock }]]
  if (ifindex === 0) {
    return {
      macbinds,
      settings: [
        [SETTING_MACBIND, BINDINGS_EXIST],
        [SETTING_LOCK, lock],
      ],
    }
  }
  return {
    macbinds,
    settings: [[SETTING_MACBIND, BINDINGS_NAME_PORTS]],
    ...(ifindex !== undefined && { locks: [[ifindex, lock]] }),
  }
}

const ofTenantNet = ({ net, bucket, rate, blocked }: TenantNet): Wishes => ({
  tenantNets: [[net, { flags: blocked ? TENANT_BLOCKED : 0, bucket, rate }]],
  anyTenantNet: [[0, 1]],
})

/** Of canonical text `a.b.c.d/len`. */
function prefix(cidr: string): PrefixKey {
  const [address = '', length = '32'] = cidr.split('/')
  return { length: Number(length), address }
}
