/**
 * Who sees what (D57). A view is a subnet that some record is for; a client is in the smallest view that holds its
 * address, and sees what is for that one and for those around it, which are the same for all clients in it.
 */
import { parsePrefix } from '../../dataplane/netlink/inet.ts'

export interface View {
  /** Never 0 and never used again, so that answers can be kept by it. */
  readonly id: number
  readonly size: 4 | 16
  readonly length: number
  /** Octets; the bits of hosts count for nothing. */
  readonly prefix: string
  /** How many records are for it. */
  uses: number
}

export interface Views {
  /** Counts one more use of a subnet. Throws RangeError for what is no prefix. */
  take(cidr: string): View
  give(view: View): void
  /** The smallest view that holds the address in the `size` octets at `at`; undefined: only what is for everybody. */
  of(bytes: Buffer, at: number, size: number): View | undefined
  /** From the view outwards; none for undefined. */
  chain(view: View | undefined): readonly View[]
}

/** Views of one family, by length of the prefix, the longest first. */
type Lengths = { length: number; views: Map<string | number, View> }[]

export function openViews(): Views {
  const four: Lengths = []
  const six: Lengths = []
  let next = 1
  const family = (size: number) => (size === 4 ? four : six)

  return {
    take(cidr) {
      const { bytes, length } = parsePrefix(cidr)
      const size = bytes.length === 4 ? 4 : 16
      const lengths = family(size)
      let entry = lengths.find((one) => one.length === length)
      if (entry === undefined) {
        entry = { length, views: new Map() }
        lengths.push(entry)
        lengths.sort((a, b) => b.length - a.length)
      }
      const key = masked(bytes, 0, size, length)
      let view = entry.views.get(key)
      if (view === undefined) {
        view = { id: next++, size, length, prefix: bytes.toString('latin1'), uses: 0 }
        entry.views.set(key, view)
      }
      view.uses++
      return view
    },
    give(view) {
      if (--view.uses > 0) return
      const lengths = family(view.size)
      const at = lengths.findIndex((one) => one.length === view.length)
      const views = lengths[at]?.views
      views?.delete(masked(Buffer.from(view.prefix, 'latin1'), 0, view.size, view.length))
      if (views?.size === 0) lengths.splice(at, 1)
    },
    of(bytes, at, size) {
      for (const { length, views } of family(size)) {
        const view = views.get(masked(bytes, at, size, length))
        if (view) return view
      }
      return undefined
    },
    chain(view) {
      if (view === undefined) return []
      const bytes = Buffer.from(view.prefix, 'latin1')
      return family(view.size).flatMap(({ length, views }) => {
        const outer = length <= view.length ? views.get(masked(bytes, 0, view.size, length)) : undefined
        return outer ? [outer] : []
      })
    },
  }
}

/** What addresses of one prefix have in common: a number for IPv4, octets for IPv6. */
function masked(bytes: Buffer, at: number, size: number, length: number): string | number {
  if (size === 4) return length === 0 ? 0 : (bytes.readUInt32BE(at) & (-1 << (32 - length))) >>> 0
  const whole = length >> 3
  const rest = length & 7
  const head = bytes.toString('latin1', at, at + whole)
  return rest === 0 ? head : head + String.fromCharCode((bytes[at + whole] ?? 0) & (0xff << (8 - rest)) & 0xff)
}
