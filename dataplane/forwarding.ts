/**
 * Devices whose IPv4 packets the node forwards (net.ipv4.conf.<device>.forwarding, ip-sysctl.rst of the kernel).
 *
 * The setting is not ours, so it is the one thing that is only ever switched on: when nobody asks for it any more it stays,
 * since others may have come to rely on it. What a change that failed has switched on goes off again.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import type { Entry, Forwarding } from './entry.ts'
import { type Driver, KernelRefusal, type Pending } from './plane.ts'

const DEVICES = '/proc/sys/net/ipv4/conf'
/** Stand beside the devices, and for all of them. */
const NO_DEVICES = new Set(['all', 'default'])
const isForwarding = (entry: Entry | undefined): entry is Forwarding => entry?.kind === 'forwarding'

/** `root` is the folder of the devices' settings. */
export function forwardingDriver(root = DEVICES): Driver {
  let held = new Set<string>()
  /** Devices that are not there. */
  let away = new Set<string>()
  let entries: readonly Forwarding[] = []

  const setting = (device: string) => `${root}/${device}/forwarding`

  /** undefined: there is no such device. */
  function isOn(device: string): boolean | undefined {
    if (NO_DEVICES.has(device)) return undefined
    try {
      return readFileSync(setting(device), 'utf8').trim() === '1'
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      throw error
    }
  }

  function set(device: string, value: '0' | '1'): void {
    try {
      writeFileSync(setting(device), value)
    } catch (error) {
      throw new KernelRefusal(`forwarding at ${device}: ${(error as Error).message}`)
    }
  }

  return {
    name: 'forwarding',
    kinds: ['forwarding'],
    async observe(desired = []) {
      entries = desired.filter(isForwarding)
      const devices = new Map([...new Set(entries.map(({ device }) => device))].map((device) => [device, isOn(device)]))
      const named = (wanted: boolean | undefined) =>
        new Set([...devices].flatMap(([device, on]) => (on === wanted ? [device] : [])))
      held = named(true)
      away = named(undefined)
      // One that is away has nothing to be repaired.
      return entries.filter(({ device }) => held.has(device) || away.has(device))
    },
    async apply(diff) {
      const switched: string[] = []
      const undo = async () => {
        for (const device of switched) {
          held.delete(device)
          if (isOn(device)) set(device, '0')
        }
      }
      try {
        for (const device of new Set(diff.flatMap(({ after }) => (isForwarding(after) ? [after.device] : [])))) {
          const on = isOn(device)
          if (on === undefined) {
            away.add(device)
            continue
          }
          if (!on) {
            set(device, '1')
            switched.push(device)
          }
          held.add(device)
        }
      } catch (error) {
        await undo()
        throw error
      }
      return undo
    },
    pending: (): Pending[] =>
      entries.flatMap(({ key, device }) => (away.has(device) ? [{ key, reason: `${device} is not there` }] : [])),
    async changedByOthers() {
      for (const device of held) if (isOn(device) !== true) return true
      for (const device of away) if (isOn(device) !== undefined) return true
      return false
    },
    close: async () => {},
  }
}
