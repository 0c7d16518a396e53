/** The network devices of this node as they are now, whoever made them. */
import { bridgedFramesMeetHooks, keepBridgedFramesFromHooks } from './bridge-netfilter.ts'
import { type Address, listAddresses } from './netlink/address.ts'
import { NETLINK_ROUTE } from './netlink/bind.ts'
import { type BondState, readBond } from './netlink/bond.ts'
import { type FdbRow, listFdb } from './netlink/fdb.ts'
import { type Link, listLinks } from './netlink/link.ts'
import { openMonitor, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR } from './netlink/monitor.ts'
import { lookupUse, lookupWorkload, type OwnUse } from './netlink/own-use.ts'
import type { Netlink } from './netlink/socket.ts'
import { listNics, type Nic } from './nics.ts'

export interface Devices {
  /** All links, loopback included. Rejects with {@link KernelError}. */
  links(): Promise<Link[]>
  /** All addresses of all links. Rejects with {@link KernelError}. */
  addresses(): Promise<Address[]>
  /** A bond, and those of `members` that are in it; undefined when there is no such bond. Rejects with {@link KernelError}. */
  bond(name: string, members: readonly string[]): Promise<BondState | undefined>
  /** Calls `listener` when addresses came or went, or that may be so; returns how to stop that. */
  onAddresses(listener: () => void): () => void
  /** Where a VXLAN device sends frames, what it learned included. Rejects with {@link KernelError}. */
  fdb(index: number): Promise<FdbRow[]>
  /** The cards, by name. Rejects with {@link KernelError}. */
  nics(): Promise<Nic[]>
  /**
   * What this node uses an address for itself: `local` when it is one of its own, on whatever device, `broadcast` and the
   * like; undefined when packets to it would leave the node. Rejects with {@link KernelError}.
   */
  useOf(address: string): Promise<OwnUse | undefined>
  /** The device behind which a machine has this very address, by a route for it alone. Rejects with {@link KernelError}. */
  workloadAt(address: string): Promise<string | undefined>
  /** Whether bridged frames meet the IP hooks of this node. */
  bridgedFramesMeetHooks(): boolean
  /** Ends that, for every bridge of this node. Throws without privilege. */
  keepBridgedFramesFromHooks(): void
}

export const openDevices = (route: Netlink, generic: Netlink): Devices => ({
  links: () => listLinks(route),
  addresses: () => listAddresses(route),
  bond: (name, members) => readBond(route, name, members),
  onAddresses: followAddresses,
  fdb: (index) => listFdb(route, index),
  nics: () => listNics(route, generic),
  useOf: (address) => lookupUse(route, address),
  workloadAt: (address) => lookupWorkload(route, address),
  bridgedFramesMeetHooks,
  keepBridgedFramesFromHooks,
})

/** No kernel to ask. */
export const NO_DEVICES: Devices = {
  links: async () => [],
  addresses: async () => [],
  bond: async () => undefined,
  onAddresses: () => () => {},
  fdb: async () => [],
  nics: async () => [],
  useOf: async () => undefined,
  workloadAt: async () => undefined,
  bridgedFramesMeetHooks: () => false,
  keepBridgedFramesFromHooks: () => {},
}

/** The node's own addresses, without prefix length. Rejects with {@link KernelError}. */
export async function addressesOf(devices: Pick<Devices, 'addresses'>): Promise<string[]> {
  return (await devices.addresses()).map(({ cidr }) => cidr.slice(0, cidr.lastIndexOf('/')))
}

function followAddresses(listener: () => void): () => void {
  const monitor = openMonitor({
    protocol: NETLINK_ROUTE,
    groups: [RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR],
    onMessage: listener,
    onOverflow: listener,
    onError: listener,
  })
  return () => monitor.close()
}
