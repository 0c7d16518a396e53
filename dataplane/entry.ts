/**
 * What the store wants the kernel to hold, as keyed entries. An area renders its rows to entries (`desired.ts`);
 * the plane compares two sets of them and lets the drivers carry out the difference.
 *
 * `key` is unique over all areas and begins with `<area>/`, so that one area's objects can be told from another's.
 */
import { type FilterEntry, filterFingerprint, isFilter } from './bpf/firewall/entries.ts'
import { isVip, type VipEntry, vipFingerprint } from './bpf/lb/entries.ts'
import type { LeftBalancer } from './bpf/lb/left.ts'
import { type PortEntry, portFingerprint } from './bpf/port/entries.ts'
import { digest } from './digest.ts'
import { type BgpEntry, bgpFingerprint, isBgp } from './frr/entries.ts'
import { isNetlink, type NetlinkEntry } from './netlink/entries.ts'
import { netlinkFingerprint, sameNetlink } from './netlink/sameness.ts'
import { isResponder, type ResponderEntry, responderFingerprint } from './responder/entries.ts'
import { isShaping, type ShapingEntry, shapingFingerprint } from './shaping/entries.ts'
import { atOnce, type Steps } from './slices.ts'

export type Entry =
  | OrderedRule
  | Chain
  | SetElement
  | FilterEntry
  | VipEntry
  | LeftBalancer
  | PortEntry
  | NetlinkEntry
  | ResponderEntry
  | BgpEntry
  | Forwarding
  | ShapingEntry

/** A rule of an ordered list: packets meet the rules of one list by ascending `rank`, and the first match decides. */
export interface OrderedRule {
  kind: 'rule'
  key: string
  /** Name of the list, which is the name of its root chain. */
  list: string
  /** Non-negative safe integers, compared from left to right; unique within the list. */
  rank: readonly number[]
  /** nft rule text without comment, built from parsed values only. */
  text: string
  /** Observed entries only: digest of the text as it was first written; the kernel lists rules in its own spelling. */
  digest?: string
}

/** A small chain whose whole content is replaced at once. The chain itself is declared in the area's skeleton. */
export interface Chain {
  kind: 'chain'
  key: string
  chain: string
  rules: readonly string[]
  /** As for a rule. */
  digest?: string
}

/** One element of a named set or map that the area's skeleton declares. */
export interface SetElement {
  kind: 'element'
  key: string
  set: string
  /** nft text of the element's key, canonical, e.g. `192.0.2.0/24 . tcp . 7070`. */
  element: string
  /** nft text of the mapped value, for maps. */
  value?: string
}

/** Somebody needs that what comes in by `device` is forwarded. */
export interface Forwarding {
  kind: 'forwarding'
  key: string
  device: string
  /** 6: the device is waited for and nothing is switched. IPv6 has one setting for the whole node, which is left to the operator. */
  family?: 6
}

/**
 * `holder` says in words who needs it, and tells apart those who need it of the same device; `device` is a name that the kernel
 * would take.
 */
export const forwarding = (area: string, device: string, holder: string, family: 4 | 6 = 4): Forwarding => ({
  kind: 'forwarding',
  key: `${area}/forwarding/${device}/${holder}`,
  device,
  ...(family === 6 && { family }),
})

/** Digest of an observed entry that does not hold what its marks say. */
export const DAMAGED = 'damaged'

/**
 * True for an observed entry that stands for a frame which somebody changed, not for content: the chains of a list, the
 * declarations of an area. Nobody desires its key, and the passage away from it repairs the frame.
 */
export function isFrame(entry: Entry): boolean {
  if (entry.kind === 'rule') return entry.rank.length === 0
  return entry.kind === 'chain' && entry.chain === ''
}

/** The passage of one key from what the kernel holds to what it shall hold; at least one side is present. */
export interface Passage {
  before?: Entry
  after?: Entry
}

/** Takes a change back. Runs at most once. */
export type Undo = () => Promise<void>

/** True when both entries ask the same of the kernel. */
export function sameEntry(a: Entry | undefined, b: Entry | undefined): boolean {
  if (a === b) return true
  if (a === undefined || b === undefined) return false
  return isNetlink(a) && isNetlink(b) ? sameNetlink(a, b) : fingerprint(a) === fingerprint(b)
}

/** Everything about an entry that the kernel must hold, as one comparable string. */
export function fingerprint(entry: Entry): string {
  if (isNetlink(entry)) return netlinkFingerprint(entry)
  if (isResponder(entry)) return responderFingerprint(entry)
  if (isBgp(entry)) return bgpFingerprint(entry)
  if (isFilter(entry)) return filterFingerprint(entry)
  if (isVip(entry)) return vipFingerprint(entry)
  if (isShaping(entry)) return shapingFingerprint(entry)
  switch (entry.kind) {
    case 'left_balancer':
      return entry.kind
    case 'forwarding':
      return `forwarding ${entry.device}`
    case 'rule':
      return `rule ${entry.list} ${entry.rank.join('.')} ${entry.digest ?? digest(entry.text)}`
    case 'chain':
      return `chain ${entry.chain} ${entry.digest ?? digest(entry.rules.join('\n'))}`
    case 'element':
      return `element ${entry.set} ${entry.element} ${entry.value ?? ''}`
    default:
      return portFingerprint(entry)
  }
}

/** The passages that lead from `before` to `after`, entries that stay the same left out. */
export const passages = (before: Iterable<Entry>, after: Iterable<Entry>): Passage[] => atOnce(compare(before, after))

/** The same for sets of any size, to be carried out in slices. */
export function* compare(before: Iterable<Entry>, after: Iterable<Entry>): Steps<Passage[]> {
  const old = new Map<string, Entry>()
  for (const entry of before) {
    old.set(entry.key, entry)
    yield
  }
  const out: Passage[] = []
  for (const entry of after) {
    const previous = old.get(entry.key)
    old.delete(entry.key)
    if (previous === undefined) out.push({ after: entry })
    else if (!sameEntry(previous, entry)) out.push({ before: previous, after: entry })
    yield
  }
  for (const entry of old.values()) out.push({ before: entry })
  return out
}

/** The same passages walked backwards. */
export function reversed(diff: readonly Passage[]): Passage[] {
  return diff.map(({ before, after }) => ({
    ...(after && { before: after }),
    ...(before && { after: before }),
  }))
}
