/**
 * What the program on the ports of `br-work` shall know, as keyed entries. Rendered by areas, carried out by
 * `driver.ts`. Addresses, prefixes and MACs are canonical text (`10.0.0.5`, `10.0.0.0/24`, `02:ce:0a:00:00:05`).
 */

export type PortEntry =
  | Net
  | Binding
  | MacBinding
  | VlanPolicy
  | TenantNet
  | Uplink
  | Overlay
  | Peer
  | Closing
  | Former
  | Stray
export type PortKind = Exclude<PortEntry['kind'], 'stray'>

/** A private network; or the network of one NIC that has routed addresses only, which shares layer 2 with nobody. */
export interface Net {
  kind: 'net'
  key: string
  /** Its number in the data plane, see NET_MAX and ROUTED_NET_BASE in dataplane/numbers.ts. Never 0. */
  net: number
  /** Absent for a network of one routed NIC. */
  cidr?: string
  gateway?: string
  /** Tag on the uplinks of the bridge; without one the network never leaves the node. */
  vlan?: number
  /** The node itself answers at `gateway`. */
  hostGateway: boolean
  /** The node serves it over DHCP: no other server may. */
  dhcp?: boolean
  /** Observed entries only: the maps do not hold all of it. */
  damaged?: true
}

/**
 * `any`: a device whose frame is the next one, while there is none or it is gone from the bridge. `first`: one, for good.
 * `none`: it stays where it is, and no other device may.
 */
export type Claims = 'any' | 'first' | 'none'

/** A NIC that may send in a network: its MAC proves its address, and the other way round. */
export interface Binding {
  kind: 'binding'
  key: string
  net: number
  /** What it is known by: the endpoint's address, or the routed address of a NIC that has nothing else. */
  address: string
  mac: string
  /** Routed public addresses that it may use as well. */
  routed: readonly string[]
  /** The device that it must come in by. While no device has this name, nobody may send as it. */
  port?: string
  /** Without `port`: which devices may take it over; absent: `any`. */
  claims?: Claims
  /** Observed entries only: the maps do not hold all of it. */
  damaged?: true
}

/** A MAC that may use a port; with any such row for a port, other MACs may not (D51). */
export interface MacBinding {
  kind: 'macbind'
  key: string
  mac: string
  /** Name of the device; '' is every workload port. */
  port: string
  /** 0 is any. */
  vlan: number
  mode: 'hard' | 'soft'
  /** Observed entries only: the maps do not hold all of it. */
  damaged?: true
}

/** A VLAN whose tagged frames are dropped on every port. */
export interface VlanPolicy {
  kind: 'vlan'
  key: string
  vlan: number
  /** Observed entries only: the map does not hold it. */
  damaged?: true
}

/** What holds for a net because of its tenant. All nets of a tenant have the same bucket, and share the limit by it. */
export interface TenantNet {
  kind: 'tenant_net'
  key: string
  net: number
  /** From 0 to BUCKET_ROWS - 1 (dataplane/numbers.ts), the tenant's own. */
  bucket: number
  /** Bits a second that its workloads may send, and that they may get; 0 for no limit. */
  rate: number
  /** No frame of the net passes. */
  blocked: boolean
  /** Observed entries only: the map does not hold it. */
  damaged?: true
}

/** A port of `br-work` that leads off the node. */
export interface Uplink {
  kind: 'uplink'
  key: string
  link: string
}

/** A port of `br-work` that is a tunnel to other nodes. What comes in by it never leaves the node by another such port, or an uplink. */
export interface Overlay {
  kind: 'overlay'
  key: string
  link: string
  /** Number of the network that it carries; 0: what belongs to none. */
  net: number
}

/** A MAC behind an overlay that carries what belongs to no network: frames for it go there and nowhere else. */
export interface Peer {
  kind: 'peer'
  key: string
  /** The overlay. */
  link: string
  mac: string
  /** Observed entries only: the map does not hold it. */
  damaged?: true
}

/** Nothing that comes in by an open port reaches the node. */
export interface Closing {
  kind: 'closing'
  key: string
  /** Observed entries only: the map does not hold it. */
  damaged?: true
}

/** A MAC that is bound no more: its DHCP client may ask the node about its former lease, and for nothing else. */
export interface Former {
  kind: 'former'
  key: string
  mac: string
  net: number
  /** Of the lease. */
  address: string
  /** Observed entries only: the map does not hold it. */
  damaged?: true
}

/** Observed entries only: a row that no entry asks for. Nobody desires it, so the next pass removes it. */
export interface Stray {
  kind: 'stray'
  key: string
  remove(): void
}

type Fields<E extends PortEntry> = Omit<E, 'kind' | 'key' | 'damaged'>

export const net = (area: string, fields: Fields<Net>): Net => ({
  kind: 'net',
  key: `${area}/net/${fields.net}`,
  ...fields,
})

export const bindingKey = (area: string, net: number, address: string): string => `${area}/binding/${net}/${address}`
export const binding = (area: string, fields: Fields<Binding>): Binding => ({
  kind: 'binding',
  key: bindingKey(area, fields.net, fields.address),
  ...fields,
})

export const macBinding = (area: string, fields: Fields<MacBinding>): MacBinding => ({
  kind: 'macbind',
  key: `${area}/macbind/${fields.mac}`,
  ...fields,
})

export const vlanPolicy = (area: string, vlan: number): VlanPolicy => ({
  kind: 'vlan',
  key: `${area}/vlan/${vlan}`,
  vlan,
})

export const tenantNet = (area: string, fields: Fields<TenantNet>): TenantNet => ({
  kind: 'tenant_net',
  key: `${area}/tenant_net/${fields.net}`,
  ...fields,
})

export const uplink = (area: string, link: string): Uplink => ({ kind: 'uplink', key: `${area}/uplink/${link}`, link })

export const overlay = (area: string, link: string, net: number): Overlay => ({
  kind: 'overlay',
  key: `${area}/overlay/${link}`,
  link,
  net,
})

export const peer = (area: string, link: string, mac: string): Peer => ({
  kind: 'peer',
  key: `${area}/peer/${link}/${mac}`,
  link,
  mac,
})

/** A MAC has been somewhere else before: the last place counts, so there is one entry of each. */
export const former = (area: string, fields: Fields<Former>): Former => ({
  kind: 'former',
  key: `${area}/former/${fields.mac}`,
  ...fields,
})

export const closing = (area: string): Closing => ({ kind: 'closing', key: `${area}/closing` })

/** Everything about an entry that the maps must hold, as one comparable string. */
export function portFingerprint(entry: PortEntry): string {
  if ('damaged' in entry) return 'damaged'
  switch (entry.kind) {
    case 'net':
      return `net ${entry.net} ${entry.cidr ?? ''} ${entry.gateway ?? ''} ${entry.vlan ?? 0} ${entry.hostGateway} ${entry.dhcp ?? false}`
    case 'binding':
      return `binding ${entry.net} ${entry.address} ${entry.mac} ${entry.routed.join(',')} ${entry.port ?? `by ${entry.claims ?? 'any'}`}`
    case 'macbind':
      return `macbind ${entry.mac} ${entry.port} ${entry.vlan} ${entry.mode}`
    case 'vlan':
      return `vlan ${entry.vlan}`
    case 'tenant_net':
      return `tenant_net ${entry.net} ${entry.bucket} ${entry.rate} ${entry.blocked}`
    case 'uplink':
      return `uplink ${entry.link}`
    case 'overlay':
      return `overlay ${entry.link} ${entry.net}`
    case 'peer':
      return `peer ${entry.link} ${entry.mac}`
    case 'former':
      return `former ${entry.mac} ${entry.net} ${entry.address}`
    case 'closing':
    case 'stray':
      return entry.kind
  }
}
