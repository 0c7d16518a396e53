/**
 * Names for NSEC records that deny exactly one name (RFC 4470). They lie in no name that can be held: those consist of
 * labels of printable ASCII below `~` (`names.ts`), and `~` and `\000` are put behind.
 */
import { labelled, MAX_NAME, parentOf } from './names.ts'
import { octets } from './rdata.ts'

const MAX_LABEL = 63
const FIRST = '\x01\0'

/** The name right behind `name` in canonical order (RFC 4034 §6.1): below it, if it may be that long. */
export function successor(name: string): string {
  return name.length + FIRST.length <= MAX_NAME ? FIRST + name : behind(name)
}

/** A name behind `name` and all names below it, before any other that may be held. */
export function behind(name: string): string {
  const parent = parentOf(name)
  const label = name.slice(1, 1 + name.charCodeAt(0))
  if (label.length < MAX_LABEL && name.length < MAX_NAME) return labelled(`${label}\0`) + parent
  // Nothing can be put behind the label, so none but the next of its length follows.
  const last = label.charCodeAt(label.length - 1) + 1
  // Upper case has no place of its own.
  const raised = last >= 0x41 && last <= 0x5a ? 0x5b : Math.min(last, 0xff)
  return labelled(label.slice(0, -1) + String.fromCharCode(raised)) + parent
}

/**
 * A name before `name` and behind any other that may be held and lies before. It may be one that is held itself where
 * lengths leave no choice: the parent, or `name` with one octet less.
 */
export function predecessor(name: string): string {
  const parent = parentOf(name)
  const label = name.slice(1, 1 + name.charCodeAt(0))
  const last = label.charCodeAt(label.length - 1)
  const head = label.slice(0, -1)
  // Behind the shorter name and all that is below it: nothing that may be held has a label that ends in `\\000`.
  if (last === 0) return head === '' ? parent : within(labelled('~'), labelled(head) + parent)
  const lowered = head + String.fromCharCode(last === 0x5b ? 0x40 : last - 1)
  if (label.length < MAX_LABEL && name.length < MAX_NAME) return labelled(`${lowered}~`) + parent
  const before = labelled(lowered) + parent
  return within(labelled('~'), before)
}

/** `label` below `name`, or `name` where that would be too long. */
const within = (label: string, name: string): string => (label.length + name.length <= MAX_NAME ? label + name : name)

/** RFC 4034 §4.1.2 */
export function typeBitmap(types: Iterable<number>): string {
  const windows = new Map<number, number[]>()
  for (const type of types) {
    const window = windows.get(type >> 8) ?? []
    const octet = (type & 0xff) >> 3
    while (window.length <= octet) window.push(0)
    window[octet] = (window[octet] ?? 0) | (0x80 >> (type & 7))
    windows.set(type >> 8, window)
  }
  return [...windows]
    .sort(([a], [b]) => a - b)
    .map(([window, bits]) => octets(window, 1) + octets(bits.length, 1) + String.fromCharCode(...bits))
    .join('')
}
