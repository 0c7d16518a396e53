/**
 * The lock behind the programs, in nft's family `bridge`: a frame passes over br-work only from and to guarded ports. So a
 * device that somebody puts into it carries nothing until both its programs stand, however long that takes, and also while
 * no agent runs, and one that loses its program says nothing from then on. No frame of another bridge is ever dropped.
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
/** The set by which a rule of ours decides, as nft shows it, which differs by its version. */
const DECIDES = /^\t\t.*@(guarded|shut) drop$/

/** How the table says what it says: its name marks the content, so that another version of it is told from this one. */
interface Wording {
  marker: string
  rules(sides: Sides): Readonly<Partial<Record<Hook, readonly string[]>>>
  /** Whether its rules ask for the ports that are shut. */
  namesShut: boolean
}

/** What came in by a guarded port without meeting its program, which somebody has taken off, goes nowhere. */
const UNSTAMPED = `meta mark & ${STAMP_MASK} != ${STAMP} iif . iifname @guarded drop`
const BRIDGE_RULES = {
  prerouting: [`meta ibrname "${WORK_BRIDGE}" iif . iifname != @guarded drop`, UNSTAMPED],
  forward: [`meta obrname "${WORK_BRIDGE}" oif . oifname != @guarded drop`],
  output: [`meta obrname "${WORK_BRIDGE}" oif . oifname != @guarded drop`],
} as const
const BY_BRIDGE: Wording = { marker: 'gate_5', rules: () => BRIDGE_RULES, namesShut: false }

const STAMPED = `meta mark & ${STAMP_MASK} == ${STAMP} oif . oifname != @guarded drop`
/**
 * Rules that ask for shut ports cost every frame a look-up, so they are there only while a port is shut. They come in the
 * transaction that puts the first one into the set: no port is shut by name alone.
 */
const BY_PORT: Wording = {
  marker: 'gate_5p',
  rules: ({ shut }) =>
    shut.size === 0
      ? { prerouting: [UNSTAMPED], forward: [STAMPED], output: [STAMPED] }
      : {
          prerouting: ['iif @shut drop', UNSTAMPED],
          forward: [STAMPED, 'oif @shut drop'],
          output: [STAMPED, 'oif @shut drop'],
        },
  namesShut: true,
}

const NONE: Sides['shut'] = new Map()
/** Those that the gate can have. */
const spelled = (ports: Sides['open']): Sides['open'] => new Map([...ports].filter(([, name]) => isSpelled(name)))

/** Names of ports of br-work by ifindex: those that frames may pass by, and all others. */
export interface Sides {
  open: ReadonlyMap<number, string>
  shut: ReadonlyMap<number, string>
}

export interface Gate {
  /**
   * Makes the table what it shall be, unless it is. An open port is known by ifindex and name, because either may come back
   * with another device; one that is shut by ifindex, because nft cannot write every name. `nameOf` gives the name that nft
   * shows for an ifindex. Resolves to false when the table was not as we made it.
   */
  ensure(sides: Sides, nameOf: (ifindex: number) => string | undefined): Promise<boolean>
}

export function openGate(nft: Kernel): Gate {
  let wording: Promise<Wording> | undefined
  const chosen = () => {
    wording ??= tellsBridges(nft).then((tells) => (tells ? BY_BRIDGE : BY_PORT))
    return wording
  }
  /** The sides that the table had last. */
  let before: Sides | undefined
  return {
    async ensure({ open, shut }, nameOf) {
      const words = await chosen()
      const sides = { open: spelled(open), shut: words.namesShut ? shut : NONE }
      const text = await listed(nft)
      const shown = (ifindex: number) => nameOf(ifindex) ?? String(ifindex)
      const isOurs = text !== undefined && isWorded(text, words, before ?? sides)
      const isWhole =
        isOurs &&
        isWorded(text, words, sides) &&
        sameSet(
          elements(text, 'guarded'),
          Array.from(sides.open, ([ifindex, name]) => `${shown(ifindex)} ${name}`),
        ) &&
        sameSet(elements(text, 'shut'), Array.from(sides.shut.keys(), shown))
      if (!isWhole) await nft.run(whole(words, sides))
      before = sides
      return isOurs
    },
  }
}

/** Whether a rule can ask which bridge a port is on. */
async function tellsBridges(nft: Kernel): Promise<boolean> {
  const rules = Object.values(BRIDGE_RULES).map(([rule]) => `  chain c { ${rule.replace(/ [io]if .*/, ' drop')}; }`)
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
function isWorded(text: string, { marker, rules }: Wording, sides: Sides): boolean {
  if (!text.includes(`chain ${marker} {`) || /^\tflags .*dormant/m.test(text)) return false
  const chains = new Map(
    Array.from(text.matchAll(/^\tchain (\S+) \{\n([\s\S]*?)^\t\}/gm), ([, name, body = '']) => [name, decidesBy(body)]),
  )
  const wanted = Object.entries({ [marker]: [], ...rules(sides) })
  return (
    chains.size === wanted.length &&
    wanted.every(([name, lines]) => chains.get(name) === decidesBy(lines.map((line) => `\t\t${line}`).join('\n')))
  )
}

/** The sets that the rules of a chain ask, in turn, or what else a rule says. */
function decidesBy(chain: string): string {
  const rules = chain.split('\n').filter((line) => !/^\s*(type .*)?$/.test(line))
  return rules.map((rule) => DECIDES.exec(rule)?.[1] ?? rule).join()
}

/** Elements of a set in the text of a table, as `<name of the ifindex>`, and ` <name>` where that is a part of them. */
function elements(text: string, set: string): string[] {
  const [, body = ''] = new RegExp(`set ${set} \\{([\\s\\S]*?)\\n\\t\\}`).exec(text) ?? []
  const [, listed = ''] = /elements = \{([^}]*)\}/.exec(body) ?? []
  const found = listed.matchAll(/(?:"([^"]+)"|([0-9]+))(?: \. "([^"]+)")?/g)
  return Array.from(found, ([, quoted, bare, name]) => `${quoted ?? bare}${name === undefined ? '' : ` ${name}`}`)
}

function sameSet(some: readonly string[], others: readonly string[]): boolean {
  const all = new Set(some)
  return all.size === new Set(others).size && others.every((it) => all.has(it))
}

/** One transaction: no frame sees the table half made. */
function whole({ marker, rules, namesShut }: Wording, sides: Sides): string[] {
  const chains = (Object.entries(rules(sides)) as [Hook, readonly string[]][]).map(
    ([hook, lines]) => `  chain ${hook} { type filter hook ${hook} priority ${HOOKS[hook]}; ${lines.join('; ')}; }`,
  )
  const open = Array.from(sides.open, ([ifindex, name]) => `${ifindex} . "${name}"`)
  return [
    `add table ${TABLE}`,
    `delete table ${TABLE}`,
    `table ${TABLE} {`,
    `  set guarded { type iface_index . ifname; ${elementsOf(open)} }`,
    ...(namesShut ? [`  set shut { type iface_index; ${elementsOf([...sides.shut.keys()])} }`] : []),
    `  chain ${marker} { }`,
    ...chains,
    '}',
  ]
}

const elementsOf = (all: readonly unknown[]): string => (all.length === 0 ? '' : `elements = { ${all.join(', ')} }`)
