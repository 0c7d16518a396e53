/**
 * br_netfilter hands bridged frames to the IP hooks of the whole network namespace, where they meet conntrack and the
 * firewall (net.bridge.bridge-nf-call-*, on by default on many kernels). Frames that the programs on the workload ports
 * forward themselves never get there, nor does what a private network sends to the node; broadcasts do, and what comes from
 * open ports.
 */
import { readFileSync, writeFileSync } from 'node:fs'

const SWITCHES = ['iptables', 'ip6tables', 'arptables'].map((name) => `/proc/sys/net/bridge/bridge-nf-call-${name}`)

/** Whether bridged frames meet any of the hooks; false where the kernel has no br_netfilter. */
export function bridgedFramesMeetHooks(): boolean {
  return SWITCHES.some((path) => {
    try {
      return readFileSync(path, 'utf8').trim() === '1'
    } catch {
      return false
    }
  })
}

/** For all bridges of this namespace, whoever made them. Throws without privilege. */
export function keepBridgedFramesFromHooks(): void {
  if (bridgedFramesMeetHooks()) for (const path of SWITCHES) writeFileSync(path, '0')
}
