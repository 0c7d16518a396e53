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
  /** By key; device and key say all of an entry but its family, which a key never changes. */
  let entries = new Map<string, Forwarding>()

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

  function note(key: string, entry: Forwarding | undefined): void {
    if (entry) entries.set(key, entry)
    else entries.delete(key)
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
      const all = desired.filter(isForwarding)
      const devices = new Map([...new Set(all.map(({ device }) => device))].map((device) => [device, isOn(device)]))
      entries = new Map(all.map((entry) => [entry.key, entry]))
      held = new Set(all.flatMap(({ device, family }) => (family !== 6 && devices.get(device) ? [device] : [])))
      away = new Set([...devices].flatMap(([device, on]) => (on === undefined ? [device] : [])))
      // One that is away has nothing to be repaired.
      return all.filter(({ device, family }) => family === 6 || held.has(device) || away.has(device))
    },
    async apply(diff) {
      const switched: string[] = []
      const stood = diff.flatMap(({ before, after }) => {
        const key = (after ?? before)?.key ?? ''
        return [[key, entries.get(key)] as const]
      })
      const undo = async () => {
        for (const [key, entry] of stood) note(key, entry)
        for (const device of switched) {
          held.delete(device)
          if (isOn(device)) set(device, '0')
        }
      }
      try {
        for (const { before, after } of diff) {
          const wanted = isForwarding(after) ? after : undefined
          note((after ?? before)?.key ?? '', wanted)
          if (wanted === undefined) continue
          const { device, family } = wanted
          const on = isOn(device)
          if (on === undefined) {
            away.add(device)
            continue
          }
          away.delete(device)
          if (family === 6) continue
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
      Array.from(entries.values()).flatMap(({ key, device }) =>
        away.has(device) ? [{ key, reason: awayText(key, device), device }] : [],
      ),
    async changedByOthers() {
      for (const device of held) if (isOn(device) !== true) return true
      for (const device of away) if (isOn(device) !== undefined) return true
      return false
    },
    close: async () => {},
  }
}

/** Names who asked: an entry's key is `<area>/forwarding/<device>/<holder>`. */
function awayText(key: string, device: string): string {
  const [area = ''] = key.split('/')
  const holder = key.slice(`${area}/forwarding/${device}/`.length)
  return `${area}: device ${device} is not there, which ${holder} waits for`
}
