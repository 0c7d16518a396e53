/**
 * The nftables driver: keeps ordered lists, small chains and set elements of table `inet stratum`.
 * One `apply` is one kernel transaction. `observe` adopts what stands in the kernel; it never flushes.
 */
import { digest } from '../digest.ts'
import type { Chain, Entry, OrderedRule, Passage, SetElement } from '../entry.ts'
import type { Driver } from '../plane.ts'
import { adoptList } from './adopt.ts'
import { type Listing, parseListing } from './listing.ts'
import { edit, type Item, item, items, type List, rewrite } from './ordered.ts'
import type { NftSession } from './session.ts'
import { comment, TABLE } from './text.ts'

/** What one area declares in the table: static text plus the names whose content the driver keeps. */
export interface Skeleton {
  /** nft commands that may be run again at any time: `add set`, `add chain`, `flush chain` + `add rule` of static chains. */
  text: string
  /** Root chains of ordered lists. */
  lists: readonly string[]
  /** Chains replaced whole. */
  chains: readonly string[]
  sets: readonly string[]
  /** Area that owns the names: observed keys of chains and elements begin with it. */
  area: string
}

export interface NftDriver extends Driver {
  /** See Plane. In portions, so that one transaction stays short. */
  addExpiring(set: string, elements: readonly string[]): Promise<void>
}

export function nftDriver(session: NftSession, skeletons: readonly Skeleton[]): NftDriver {
  const marker = `skeleton_${digest(skeletons.map(({ text }) => text).join('\n'))}`
  let lists = new Map<string, List>()
  /** Chains of a list whose order or content could not be understood: replaced whole by the next change to it. */
  let stale = new Map<string, string[]>()

  async function list(): Promise<Listing> {
    return parseListing(await session.run(`add table ${TABLE}\nlist table ${TABLE}\n`))
  }

  async function raise(present: Listing): Promise<Listing> {
    if (present.chains.has(marker)) return present
    const older = [...present.chains.keys()].filter((name) => name.startsWith('skeleton_'))
    const script = [
      ...skeletons.map(({ text }) => text),
      `add chain ${TABLE} ${marker}`,
      ...older.map((name) => `delete chain ${TABLE} ${name}`),
    ]
    await session.run(`${script.join('\n')}\n`)
    return list()
  }

  async function observe(): Promise<Entry[]> {
    const listing = await raise(await list())
    const entries: Entry[] = []
    const [adopted, odd] = [new Map<string, List>(), new Map<string, string[]>()]
    for (const skeleton of skeletons) {
      for (const name of skeleton.lists) {
        const found = adoptList(name, listing)
        adopted.set(name, found.list)
        if (found.stale) {
          odd.set(name, found.stale)
          // Desired by nobody, so that the next pass removes what is not ours, even from a list that shall be empty.
          entries.push({
            kind: 'rule',
            key: `${skeleton.area}/foreign`,
            list: name,
            rank: [],
            text: '',
            digest: 'foreign',
          })
        }
        for (const it of items(found.list.root)) entries.push({ kind: 'rule', list: name, ...it })
      }
      for (const chain of skeleton.chains) entries.push(observedChain(skeleton.area, chain, listing))
      for (const set of skeleton.sets) entries.push(...observedElements(skeleton.area, set, listing))
    }
    lists = adopted
    stale = odd
    return entries.filter((entry) => entry.kind !== 'chain' || entry.digest !== digest(''))
  }

  async function apply(diff: readonly Passage[]): Promise<void> {
    const commands: string[] = []
    const edited = new Map<string, List>()
    for (const [name, { removed, added }] of rulesByList(diff)) {
      const current = lists.get(name)
      if (current === undefined) throw new TypeError(`list ${name} is not declared in any skeleton`)
      const leftovers = stale.get(name)
      const done = leftovers ? rewrite(name, added, current.next, leftovers) : edit(current, removed, added)
      edited.set(name, done.list)
      commands.push(...done.commands)
    }
    for (const passage of diff) commands.push(...chainCommands(passage), ...elementCommands(passage))
    if (commands.length > 0) await session.run(`${commands.join('\n')}\n`)
    for (const [name, value] of edited) {
      lists.set(name, value)
      stale.delete(name)
    }
  }

  async function addExpiring(set: string, elements: readonly string[]): Promise<void> {
    for (let at = 0; at < elements.length; at += 500) {
      await session.run(`add element ${TABLE} ${set} { ${elements.slice(at, at + 500).join(', ')} }\n`)
    }
  }

  const kinds = ['rule', 'chain', 'element'] as const
  return { name: 'nft', kinds, observe, apply, addExpiring, close: () => session.close() }
}

function rulesByList(diff: readonly Passage[]): Map<string, { removed: Item[]; added: Item[] }> {
  const byList = new Map<string, { removed: Item[]; added: Item[] }>()
  const of = (rule: OrderedRule) => {
    const found = byList.get(rule.list) ?? { removed: [], added: [] }
    byList.set(rule.list, found)
    return found
  }
  for (const { before, after } of diff) {
    if (before?.kind === 'rule') of(before).removed.push(asItem(before))
    if (after?.kind === 'rule') of(after).added.push(asItem(after))
  }
  return byList
}

function asItem(rule: OrderedRule): Item {
  const made = item(rule.key, rule.rank, rule.text)
  return rule.digest === undefined ? made : { ...made, digest: rule.digest }
}

function chainCommands({ before, after }: Passage): string[] {
  const chain = after?.kind === 'chain' ? after : before?.kind === 'chain' ? { ...before, rules: [] } : undefined
  if (chain === undefined) return []
  // Every rule carries the digest of the whole chain, so that a missing one shows.
  const mark = digest(chain.rules.join('\n'))
  const rules = chain.rules.map(
    (text, at) =>
      `add rule ${TABLE} ${chain.chain} ${text} ${comment(`${chain.key} ${at + 1}/${chain.rules.length} ${mark}`)}`,
  )
  return [`flush chain ${TABLE} ${chain.chain}`, ...rules]
}

function elementCommands({ before, after }: Passage): string[] {
  const line = (verb: string, { set, element, value }: SetElement) =>
    `${verb} element ${TABLE} ${set} { ${element}${value === undefined || verb === 'delete' ? '' : ` : ${value}`} }`
  return [
    ...(before?.kind === 'element' ? [line('delete', before)] : []),
    ...(after?.kind === 'element' ? [line('add', after)] : []),
  ]
}

/** A chain as it stands; anything that does not carry a full set of matching marks counts as foreign content. */
function observedChain(area: string, chain: string, listing: Listing): Chain {
  const rules = listing.chains.get(chain) ?? []
  const marks = rules.map((rule) => /^\S+ (\d+)\/(\d+) ([0-9a-f]{16})$/.exec(rule.comment))
  const mark = marks[0]?.[3]
  const whole = marks.every(
    (it, at) => it?.[3] === mark && Number(it?.[1]) === at + 1 && Number(it?.[2]) === rules.length,
  )
  const held = rules.length === 0 ? digest('') : whole && mark !== undefined ? mark : 'foreign'
  const key = `${area}/${chain}`
  return { kind: 'chain', key, chain, rules: rules.map(({ text }) => text), digest: held }
}

function observedElements(area: string, set: string, listing: Listing): SetElement[] {
  return (listing.sets.get(set) ?? []).map((text) => {
    const [element = '', value] = text.split(' : ')
    const key = `${area}/${set}/${element}`
    return { kind: 'element', key, set, element, ...(value === undefined ? {} : { value }) }
  })
}
