/**
 * The static part of the table: what areas declare once and for all. A marker chain, named after the digest of all
 * declarations, tells whether the kernel has them; one rule in it for each area holds the digest of how the kernel lists
 * what that area declared, so a set that went, a policy or an element that changed shows. No packet meets that chain.
 */
import { digest } from '../digest.ts'
import { elementsOf, type Listing } from './listing.ts'
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

export interface Frame {
  /** Name of the marker chain. */
  readonly marker: string
  /** The areas whose declarations the kernel does not hold as they were recorded. */
  broken(listing: Listing): Skeleton[]
  /** Base chains of an area that stand at another hook or priority than declared: these can only be made anew. */
  misplaced(listing: Listing, skeleton: Skeleton): string[]
  /** The commands that restore the declarations of an area. */
  raise(listing: Listing, skeleton: Skeleton): string[]
  /** The commands that record how the kernel lists all of them, and remove the markers of other declarations. */
  record(listing: Listing): string[]
}

export function frameOf(skeletons: readonly Skeleton[]): Frame {
  const marker = `skeleton_${digest(skeletons.map(({ text }) => text).join('\n'))}`
  const declared = new Map(skeletons.map((skeleton) => [skeleton, declarations(skeleton)]))
  const of = (skeleton: Skeleton) => declared.get(skeleton) ?? []

  const misplaced = ({ chains, heads }: Listing, skeleton: Skeleton) =>
    of(skeleton)
      .filter(({ kind, name, hook }) => kind === 'chain' && hook !== '' && chains.has(name))
      .filter(({ name, hook }) => !heads.get(`chain ${name}`)?.startsWith(`${hook};`))
      .map(({ name }) => name)

  return {
    marker,
    misplaced,
    broken(listing) {
      const recorded = new Map(
        (listing.chains.get(marker) ?? []).map(({ comment: text }) => {
          const [, area = '', mark = ''] = text.split(' ')
          return [area, mark]
        }),
      )
      return skeletons.filter((skeleton) => {
        const mark = markOf(skeleton, of(skeleton), listing)
        return mark === undefined || mark !== recorded.get(skeleton.area)
      })
    },
    raise(listing, skeleton) {
      const filled = of(skeleton).filter((it) => listing.sets.has(it.name) && isStaticSet(it, skeleton, listing))
      return [
        `add table ${TABLE}`,
        ...misplaced(listing, skeleton).flatMap(removal),
        // Running the text again adds what is missing and leaves what is too much.
        ...filled.map(({ kind, name }) => `flush ${kind} ${TABLE} ${name}`),
        skeleton.text.trim(),
        `add chain ${TABLE} ${marker}`,
      ]
    },
    record(listing) {
      const rules = skeletons.flatMap((skeleton) => {
        const mark = markOf(skeleton, of(skeleton), listing)
        const text = mark && comment(`skeleton ${skeleton.area} ${mark}`)
        return text === undefined ? [] : [`add rule ${TABLE} ${marker} counter ${text}`]
      })
      const older = [...listing.chains.keys()].filter((name) => name.startsWith('skeleton_') && name !== marker)
      return [`flush chain ${TABLE} ${marker}`, ...rules, ...older.flatMap(removal)]
    },
  }
}

const removal = (chain: string) => [`flush chain ${TABLE} ${chain}`, `delete chain ${TABLE} ${chain}`]

interface Declaration {
  /** `chain`, `set`, `map`, `counter` and the like. */
  kind: string
  name: string
  /** `type … hook … priority …` of a base chain, else ''. */
  hook: string
}

/** What the text adds to the table, apart from rules and elements, which are content of what it adds. */
function declarations({ text }: Skeleton): Declaration[] {
  const statement = new RegExp(`^[ \\t]*add ([a-z][a-z ]*?) ${TABLE} ([A-Za-z0-9_./-]+)(.*)$`, 'gm')
  return Array.from(text.matchAll(statement), ([, kind = '', name = '', rest = '']) => {
    const hook = /type \w+ hook \w+ (device \S+ )?priority -?\d+(?=;)/.exec(rest)?.[0] ?? ''
    return { kind, name, hook }
  }).filter(({ kind }) => kind !== 'rule' && kind !== 'element')
}

/** Digest of how the kernel lists the declarations; undefined when one of them is not there. */
function markOf(skeleton: Skeleton, declared: readonly Declaration[], listing: Listing): string | undefined {
  const { lists, chains, sets } = skeleton
  const lines = [`table ${listing.heads.get('table')}`]
  for (const it of declared) {
    const head = listing.heads.get(`${it.kind} ${it.name}`)
    if (head === undefined) return undefined
    lines.push(`${it.kind} ${it.name} ${head}`)
    const kept = lists.includes(it.name) || chains.includes(it.name)
    if (it.kind === 'chain' && !kept) {
      for (const rule of listing.chains.get(it.name) ?? []) lines.push(`${rule.text} ${rule.comment}`)
    }
    if (isStaticSet(it, skeleton, listing)) lines.push([...elementsOf(listing, it.name)].sort().join())
  }
  const named =
    [...lists, ...chains].every((name) => listing.chains.has(name)) && sets.every((it) => listing.sets.has(it))
  return named ? digest(lines.join('\n')) : undefined
}

/** A set whose elements stand in the declaration. Where elements come and go by themselves, they are nobody's. */
function isStaticSet({ kind, name }: Declaration, { sets }: Skeleton, { heads }: Listing): boolean {
  if ((kind !== 'set' && kind !== 'map') || sets.includes(name)) return false
  return !/\b(timeout|dynamic)\b/.test(heads.get(`${kind} ${name}`) ?? '')
}
