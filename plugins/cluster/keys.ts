/** What stands under which key of etcd. Parts of keys are percent-encoded: whatever they hold, a `/` only divides. */

import type { Collection, Row, Value } from '../../core/replication.ts'

export const META = {
  id: '/meta/id',
  /** An authority that all members had, key and all, from the time before each had its own. */
  ca: '/meta/ca',
  imported: '/meta/imported',
  lock: '/meta/lock',
  yield: '/meta/yield',
  /** Who came last: it may be gone before the others have looked. */
  came: '/meta/came',
}
export const MEMBERS = '/m/'
/** What each member trusts: see trusting.ts. */
export const TRUST = '/t/'
export const LIVE = '/live/'
/** Who was removed and may not know it. */
export const GONE = '/gone/'
export const ROWS = '/r/'
export const UNIQUE = '/u/'
export const SERIAL = '/s/'
export const BLOCKS = '/b/'
/** Join codes. */
export const CODES = '/j/'
/**
 * Put by every transaction, one a node: which it was and who caused it. Each transaction compares that the one before was the last, so
 * a node finds out whether one was carried out, and can see to it that it never is.
 */
export const CHANGE = '/change/'

export const memberKey = (node: string): string => MEMBERS + encode(node)
export const trustKey = (node: string): string => TRUST + encode(node)
export const goneKey = (node: string): string => GONE + encode(node)
export const liveKey = (node: string): string => LIVE + encode(node)

/** One part of a key: printable ASCII without `/`. Text that is no Unicode (a lone surrogate) is none of ours. @throws URIError */
export const encode = (part: string): string => encodeURIComponent(part)
/** What is no such part is what it is. */
export function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** What follows `prefix`, decoded part by part. */
export const partsOf = (key: string, prefix: string): string[] => key.slice(prefix.length).split('/').map(decode)

export const changeKey = (node: string): string => CHANGE + encode(node)
/** What there is about a member, which nobody needs when it is none any more. */
export const keysAbout = (node: string): string[] => [memberKey(node), liveKey(node), changeKey(node), trustKey(node)]
/**
 * What it takes along when it leaves. Until it is gone the others need what it trusts to go on as they are, and it needs the key of its last
 * change, by which it finds out what became of one that is under way.
 */
export const keysTakenAlong = (node: string): string[] => [memberKey(node), liveKey(node)]
export const serialKey = (name: string): string => SERIAL + encode(name)

/** `=` marks what is no text; in text it is encoded. */
const partOf = (value: Value | undefined): string =>
  typeof value === 'string' ? encode(value) : `=${value == null ? '' : value}`
const valueIn = (part: string): Value =>
  part.startsWith('=') ? (part === '=' ? null : Number(part.slice(1))) : decode(part)

const under = (prefix: string, name: string, values: readonly (Value | undefined)[]): string =>
  `${prefix}${[encode(name), ...values.map(partOf)].join('/')}`
const valuesOf = (row: Row, columns: readonly string[]): Value[] => columns.map((column) => row[column] ?? null)

export const rowKey = ({ name, key }: Pick<Collection, 'name' | 'key'>, row: Row): string =>
  under(ROWS, name, valuesOf(row, key))
/** The row of another collection that a row rests on; undefined: on none. */
export function parentKey(row: Row, parent: { collection: string; columns: readonly string[] }): string | undefined {
  const values = valuesOf(row, parent.columns)
  return values.some(isNone) ? undefined : under(ROWS, parent.collection, values)
}
/** How the keys begin of all rows of `child` that go with a row whose key has these values. */
export const childPrefix = (child: string, values: readonly Value[]): string => `${under(ROWS, child, values)}/`
/** What nobody else may share with a row, each as a key. */
export const uniqueKeys = ({ name, unique = [] }: Collection, row: Row): string[] =>
  unique.flatMap((columns, index) => {
    const values = valuesOf(row, columns)
    return values.some(isNone) ? [] : [under(UNIQUE, name, [String(index), ...values])]
  })

const isNone = (value: Value) => value === null || value === ''

/** The collection and the key columns' values of a row's key. */
export function readRowKey(key: string): { collection: string; values: Value[] } {
  const [name = '', ...parts] = key.slice(ROWS.length).split('/')
  return { collection: decode(name), values: parts.map(valueIn) }
}
