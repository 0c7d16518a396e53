/**
 * The lock behind the programs, in nft's family `bridge`: a frame passes over br-work only from and to guarded ports. So a
 * device that somebody puts into it carries nothing until both its programs stand, however long that takes, and also while
 * no agent runs. No frame of another bridge is ever dropped.
 *
 * Which bridge a port is on the kernel tells by `ibrname` and `obrname` (CONFIG_NFT_BRIDGE_META). Without them what is stamped
 * leaves by guarded ports only, and the ports that are known not to be guarded are shut one by one: what joins br-work
 * while no agent runs then reaches others of its kind, but nothing that is guarded.
 */

import type { Kernel } from '../../nft/spelling.ts'
import { NFT_TABLE, STAMP, STAMP_MASK, WORK_BRIDGE } from '../../numbers.ts'
import { KernelRefusal } from '../../plane.ts'

const TABLE = `bridge ${NFT_TABLE}`
/** Tables of these names never have a chain at a hook: they are made and unmade in one transaction. */
const TRIAL = `bridge ${NFT_TABLE}_trial`
/** Names that nft reads back as they were written. */
const SPELLED = /^[A-Za-z0-9_.-]{1,15}$/
/** Whether the gate can have a port of this name. */
export const isSpelled = (name: string): boolean => SPELLED.test(name)
/** Before anything else of the bridge, which would learn by what port a MAC is. */
const HOOKS = { prerouting: 'dstnat', forward: 'filter', output: 'filter' } as const
type Hook = keyof typeof HOOKS
/** A rule of ours as nft shows it, which differs by its version. */
const DECIDES = /^\t\t.*[io]if \. [io]ifname .*@(?:guarded|shut) drop$/

/** How the table says what it says: its name marks the content, so that another version of it is told from this one. */
interface Wording {
  marker: string
  rules: Readonly<Record<Hook, readonly string[]>>
}

const BY_BRIDGE: Wording = {
  marker: 'gate_3',
  rules: {
    prerouting: [`meta ibrname "${WORK_BRIDGE}" iif . iifname != @guarded drop`],
    forward: [`meta obrname "${WORK_BRIDGE}" oif . oifname != @guarded drop`],
    output: [`meta obrname "${WORK_BRIDGE}" oif . oifname != @guarded drop`],
  },
}

const STAMPED = `meta mark & ${STAMP_MASK} == ${STAMP} oif . oifname != @guarded drop`
const BY_PORT: Wording = {
  marker: 'gate_3p',
  rules: {
    prerouting: ['iif . iifname @shut drop'],
    forward: [STAMPED, 'oif . oifname @shut drop'],
    output: [STAMPED, 'oif . oifname @shut drop'],
  },
}

/** Names of ports of br-work by ifindex: those that frames may pass by, and all others. */
export interface Sides {
  open: ReadonlyMap<number, string>
  shut: ReadonlyMap<number, string>
}

export interface Gate {
  /**
   * Makes the table what it shall be, unless it is. A port is known by ifindex and name, because either may come back with
   * another device. `nameOf` gives the name that nft shows for an ifindex. Resolves to false when the table was not as we made it.
   */
  ensure(sides: Sides, nameOf: (ifindex: number) => string | undefined): Promise<boolean>
}

export function openGate(nft: Kernel): Gate {
  let wording: Promise<Wording> | undefined
  const chosen = () => {
    wording ??= tellsBridges(nft).then((tells) => (tells ? BY_BRIDGE : BY_PORT))
    return wording
  }
  return {
    async ensure(sides, nameOf) {
      const words = await chosen()
      const text = await listed(nft)
      const shown = (ports: ReadonlyMap<number, string>) =>
        Array.from(ports, ([ifindex, name]) => `${nameOf(ifindex) ?? String(ifindex)} ${name}`)
      const isOurs = text !== undefined && isWorded(text, words)
      const isWhole =
        isOurs &&
        sameSet(elements(text, 'guarded'), shown(sides.open)) &&
        sameSet(elements(text, 'shut'), shown(sides.shut))
      if (!isWhole) await nft.run(whole(words, sides))
      return isOurs
    },
  }
}

/** Whether a rule can ask which bridge a port is on. */
async function tellsBridges(nft: Kernel): Promise<boolean> {
  const rules = Object.values(BY_BRIDGE.rules).map(
    ([rule = '']) => `  chain c { ${rule.replace(/ [io]if .*/, ' drop')}; }`,
  )
  try {
    await nft.run([`table ${TRIAL} {`, ...rules, '}', `delete table ${TRIAL}`])
    return true
  } catch (error) {
    if (error instanceof KernelRefusal) return false
    throw error
  }
}

/** The table as nft shows it; undefined when it is not there. */
async function listed(nft: Kernel): Promise<string | undefined> {
  try {
    return await nft.list(`table ${TABLE}`)
  } catch (error) {
    if (error instanceof KernelRefusal) return undefined
    throw error
  }
}

/** Whether the table has exactly our rules, and is in force. */
function isWorded(text: string, { marker, rules }: Wording): boolean {
  if (!text.includes(`chain ${marker} {`) || /^\tflags .*dormant/m.test(text)) return false
  const chains = Array.from(text.matchAll(/^\tchain \S+ \{\n([\s\S]*?)^\t\}/gm), ([, body = '']) => body.split('\n'))
  const found = chains.flat().flatMap((line) => (/^\s*(type .*)?$/.test(line) ? [] : [line]))
  return found.length === Object.values(rules).flat().length && found.every((line) => DECIDES.test(line))
}

/** Elements of a set in the text of a table, as `<name of the ifindex> <name>`. */
function elements(text: string, set: string): string[] {
  const [, body = ''] = new RegExp(`set ${set} \\{([\\s\\S]*?)\\n\\t\\}`).exec(text) ?? []
  const [, listed = ''] = /elements = \{([^}]*)\}/.exec(body) ?? []
  const pairs = listed.matchAll(/(?:"([^"]+)"|([0-9]+)) \. "([^"]+)"/g)
  return Array.from(pairs, ([, quoted, bare, name]) => `${quoted ?? bare} ${name}`)
}

function sameSet(some: readonly string[], others: readonly string[]): boolean {
  const all = new Set(some)
  return all.size === new Set(others).size && others.every((it) => all.has(it))
}

/** One transaction: no frame sees the table half made. */
function whole({ marker, rules }: Wording, { open, shut }: Sides): string[] {
  const chains = (Object.keys(HOOKS) as Hook[]).map(
    (hook) => `  chain ${hook} { type filter hook ${hook} priority ${HOOKS[hook]}; ${rules[hook].join('; ')}; }`,
  )
  return [
    `add table ${TABLE}`,
    `delete table ${TABLE}`,
    `table ${TABLE} {`,
    `  set guarded { type iface_index . ifname; ${elementsOf(open)} }`,
    `  set shut { type iface_index . ifname; ${elementsOf(shut)} }`,
    `  chain ${marker} { }`,
    ...chains,
    '}',
  ]
}

function elementsOf(ports: ReadonlyMap<number, string>): string {
  const pairs = Array.from(ports, ([ifindex, name]) => (isSpelled(name) ? [`${ifindex} . "${name}"`] : [])).flat()
  return pairs.length === 0 ? '' : `elements = { ${pairs.join(', ')} }`
}
