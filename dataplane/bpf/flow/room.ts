/** How many flows a node remembers. The kernel takes the memory of such a map at once, so it depends on what there is. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { FLOW4_ROWS, FLOW6_ROWS } from '../../numbers.ts'
import { openMap } from '../map.ts'
import { flowKey4, flowKey6, flowRow } from './layout.ts'

/** A row with the kernel's own part of it. */
const ROW_BYTES = 128
/** Flows of IPv4 take no more than this part of the memory, those of IPv6 about a third of that again. */
const SHARE = 1 / 64
const MOST = 1 << 20

/** Rows of `flows4` and `flows6` on a node with so many bytes of memory. */
export function flowRows(memory: number): { flows4: number; flows6: number } {
  const fitting = 2 ** Math.floor(Math.log2((memory * SHARE) / ROW_BYTES))
  const flows4 = Math.min(MOST, Math.max(FLOW4_ROWS, fitting))
  return { flows4, flows6: Math.max(FLOW6_ROWS, flows4 / 4) }
}

/** The same, but maps that are pinned stay as large as they are: what they know is worth more than another size. */
export function roomFor(pinDir: string, memory: number): { flows4: number; flows6: number } {
  const { flows4, flows6 } = flowRows(memory)
  return {
    flows4: pinnedRows(join(pinDir, 'flows4'), flowKey4) ?? flows4,
    flows6: pinnedRows(join(pinDir, 'flows6'), flowKey6) ?? flows6,
  }
}

function pinnedRows(path: string, key: typeof flowKey4): number | undefined {
  if (!existsSync(path)) return undefined
  const map = openMap(path, key, flowRow)
  const { maxEntries } = map.info
  map.close()
  return maxEntries
}
