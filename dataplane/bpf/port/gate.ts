/**
 * The lock behind the programs: in family `bridge`, a frame that carries our stamp leaves by a guarded port or not at all.
 * So a device that somebody puts into `br-work` gets nothing private until both its programs stand, however long that takes,
 * and also while no agent runs. Touches stamped frames only, never those of a foreign bridge.
 */

import type { Kernel } from '../../nft/spelling.ts'
import { NFT_TABLE, STAMP, STAMP_MASK } from '../../numbers.ts'
import { KernelRefusal } from '../../plane.ts'

const TABLE = `bridge ${NFT_TABLE}`
/** Names the content, so that another version of it is told from this one. */
const MARKER = 'gate_2'
/** Names that nft reads back as they were written. */
const SPELLED = /^[A-Za-z0-9_.-]{1,15}$/
const RULE = `meta mark & ${STAMP_MASK} == ${STAMP} oif . oifname != @guarded drop`

export interface Gate {
  /**
   * Makes the table what it shall be, unless it is; `guarded` is name by ifindex, because either may come back with another
   * device. `nameOf` gives the name that nft shows for an ifindex. Resolves to false when the table was not as we made it.
   */
  ensure(guarded: ReadonlyMap<number, string>, nameOf: (ifindex: number) => string | undefined): Promise<boolean>
}

export const openGate = (nft: Kernel): Gate => ({
  async ensure(guarded, nameOf) {
    const wanted = new Set(Array.from(guarded, ([ifindex, name]) => `${nameOf(ifindex) ?? String(ifindex)} ${name}`))
    const present = await listed(nft)
    if (present !== undefined && present.size === wanted.size && [...wanted].every((name) => present.has(name)))
      return true
    await nft.run(whole(guarded))
    return present !== undefined
  },
})

/** Devices in the set; undefined when the table is not there as we made it. */
async function listed(nft: Kernel): Promise<Set<string> | undefined> {
  let text: string
  try {
    text = await nft.list(`table ${TABLE}`)
  } catch (error) {
    if (error instanceof KernelRefusal) return undefined
    throw error
  }
  const rules = Array.from(text.matchAll(/oif \. oifname != @guarded drop$/gm))
  if (!text.includes(`chain ${MARKER} {`) || rules.length !== 2) return undefined
  const elements = /elements = \{([^}]*)\}/.exec(text)?.[1] ?? ''
  const pairs = elements.matchAll(/(?:"([^"]+)"|([0-9]+)) \. "([^"]+)"/g)
  return new Set(Array.from(pairs, ([, quoted, bare, name]) => `${quoted ?? bare} ${name}`))
}

/** One transaction: no frame sees the table half made. */
function whole(guarded: ReadonlyMap<number, string>): string[] {
  // A name that cannot be written is none that a stamped frame leaves by.
  const pairs = Array.from(guarded, ([ifindex, name]) => (SPELLED.test(name) ? [`${ifindex} . "${name}"`] : [])).flat()
  const elements = pairs.length === 0 ? '' : `elements = { ${pairs.join(', ')} }`
  return [
    `add table ${TABLE}`,
    `delete table ${TABLE}`,
    `table ${TABLE} {`,
    `  set guarded { type iface_index . ifname; ${elements} }`,
    `  chain ${MARKER} { }`,
    `  chain forward { type filter hook forward priority filter; ${RULE}; }`,
    `  chain output { type filter hook output priority filter; ${RULE}; }`,
    '}',
  ]
}
