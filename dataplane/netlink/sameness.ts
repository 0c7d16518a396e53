/** Whether what the kernel holds is what is asked for. An observed entry says more than a desired one asks. */
import { type DeviceConf, hasConf } from './devconf.ts'
import { deviceChange } from './device.ts'
import type { LinkEntry, NetlinkEntry, RouteEntry } from './entries.ts'

/** True when both ask the same of the kernel, or when what was observed is what is asked for. */
export function sameNetlink(a: NetlinkEntry, b: NetlinkEntry): boolean {
  if (a.kind === 'link' && b.kind === 'link' && (a.seen === undefined) !== (b.seen === undefined)) {
    return a.seen ? satisfies(a, a.seen, b) : b.seen !== undefined && satisfies(b, b.seen, a)
  }
  if (a.kind === 'route' && b.kind === 'route' && (a.seen === undefined) !== (b.seen === undefined)) {
    const [held, wanted] = a.seen ? [a, b] : [b, a]
    return leadsAlike(held, wanted) && (wanted.link === undefined || wanted.link === held.seen?.link)
  }
  if (a.kind === 'address' && b.kind === 'address') {
    return equal({ ...a, floating: undefined }, { ...b, floating: undefined })
  }
  // What happens at the release does not show before.
  if (a.kind === 'member' && b.kind === 'member') return a.key === b.key && a.bridge === b.bridge
  return equal(a, b)
}

/** Everything that an entry says, as one comparable string. */
export function netlinkFingerprint(entry: NetlinkEntry): string {
  return plain(entry)
}

/** All but the link. */
function leadsAlike(a: RouteEntry, b: RouteEntry): boolean {
  return (
    a.key === b.key &&
    a.gateway === b.gateway &&
    a.type === b.type &&
    a.scope === b.scope &&
    a.source === b.source &&
    a.onlink === b.onlink
  )
}

function satisfies(held: LinkEntry, conf: DeviceConf, wanted: LinkEntry): boolean {
  return (
    held.key === wanted.key &&
    deviceChange(held.device, wanted.device) === 'none' &&
    held.up === wanted.up &&
    held.master === wanted.master &&
    (wanted.isolated === undefined || wanted.isolated === (held.isolated ?? false)) &&
    (wanted.mtu === undefined || held.mtu === wanted.mtu) &&
    (wanted.mac === undefined || held.mac === wanted.mac) &&
    wanted.sysctls.every(([path, value]) => hasConf(conf, path, wanted.name, value))
  )
}

/** Of fields and lists all the way down; a field that is undefined is as good as none. */
function equal(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  // Both are plain objects or lists.
  const [left, right] = [a as Record<string, unknown>, b as Record<string, unknown>]
  for (const key in left) if (!equal(left[key], right[key])) return false
  for (const key in right) if (right[key] !== undefined && left[key] === undefined) return false
  return true
}

/** Fields in the order of their names, absent ones left out. */
function plain(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) =>
    part !== null && typeof part === 'object' && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  )
}
