/** The network devices of this node as they are now, whoever made them. */
import { bridgedFramesMeetHooks, keepBridgedFramesFromHooks } from './bridge-netfilter.ts'
import { ensureForwarding } from './forwarding.ts'
import { type Link, listLinks } from './netlink/link.ts'
import type { Netlink } from './netlink/socket.ts'
import { listNics, type Nic } from './nics.ts'

export interface Devices {
  /** All links, loopback included. Rejects with {@link KernelError}. */
  links(): Promise<Link[]>
  /** The cards, by name. Rejects with {@link KernelError}. */
  nics(): Promise<Nic[]>
  /** Lets what comes in by a device be forwarded; false when there was nothing to do. Throws without privilege. */
  ensureForwarding(device: string): boolean
  /** Whether bridged frames meet the IP hooks of this node. */
  bridgedFramesMeetHooks(): boolean
  /** Ends that, for every bridge of this node. Throws without privilege. */
  keepBridgedFramesFromHooks(): void
}

export const openDevices = (route: Netlink, generic: Netlink): Devices => ({
  links: () => listLinks(route),
  nics: () => listNics(route, generic),
  ensureForwarding,
  bridgedFramesMeetHooks,
  keepBridgedFramesFromHooks,
})

/** No kernel to ask. */
export const NO_DEVICES: Devices = {
  links: async () => [],
  nics: async () => [],
  ensureForwarding: () => false,
  bridgedFramesMeetHooks: () => false,
  keepBridgedFramesFromHooks: () => {},
}
