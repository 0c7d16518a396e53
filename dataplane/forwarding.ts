/** Whether the node forwards what comes in by a device (net.ipv4.conf.<device>.forwarding, ip-sysctl.rst of the kernel). */
import { readFileSync, writeFileSync } from 'node:fs'

const setting = (device: string) => `/proc/sys/net/ipv4/conf/${device}/forwarding`

/** True when it was off and is on now; false when there was nothing to do. Throws without privilege. */
export function ensureForwarding(device: string): boolean {
  const path = setting(device)
  try {
    if (readFileSync(path, 'utf8').trim() === '1') return false
  } catch (error) {
    // No such device, at the moment.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
  writeFileSync(path, '1')
  return true
}
