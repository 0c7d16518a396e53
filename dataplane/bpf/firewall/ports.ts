/** Ranges of destination ports as cells: what shares the first 4, 8, 12 or 16 bits of the port. */

/** Lengths of the prefixes of a port, finest first. */
export const PORT_LENGTHS = [16, 12, 8, 4] as const

/** 0 or one of PORT_LENGTHS. */
export type PortLength = 0 | 4 | 8 | 12 | 16

/** The mask of a prefix of a port. */
export const portMask = (length: PortLength): number => (0xffff << (16 - length)) & 0xffff

/** Whether one cell of this length holds the whole range. */
export const fitsCell = (first: number, last: number, length: PortLength): boolean =>
  ((first ^ last) & portMask(length)) === 0

/**
 * First ports of the cells of one length among those that make up the range: cells of different length do not overlap,
 * and there are at most 30 of each.
 */
export function cellsOf(first: number, last: number, length: PortLength): number[] {
  const out: number[] = []
  let [from, end] = [first, last + 1]
  for (const at of PORT_LENGTHS) {
    const size = 1 << (16 - at)
    const coarser = size * 16
    // What does not fill a cell of the next length is made of cells of this one, at both ends.
    const headEnd = at === 4 ? end : Math.min(end, Math.ceil(from / coarser) * coarser)
    const tailStart = at === 4 ? end : Math.max(headEnd, Math.floor(end / coarser) * coarser)
    if (at === length) {
      for (let port = from; port < headEnd; port += size) out.push(port)
      for (let port = tailStart; port < end; port += size) out.push(port)
    }
    from = headEnd
    end = tailStart
  }
  return out
}
