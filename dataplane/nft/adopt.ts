/** Rebuilds the tree of an ordered list from what stands in the kernel. */
import { DAMAGED } from '../entry.ts'
import type { Steps } from '../slices.ts'
import type { Listing } from './listing.ts'
import { compareRanks, emptyList, type Item, type List, type Node } from './ordered.ts'
import type { Spelling } from './spelling.ts'

export interface Adopted {
  /** With `stale`, one leaf of all rules of ours that packets still meet, in their order. */
  list: List
  /** Present when the kernel's chains are not a tree of ours: the chains to drop once the list is written anew. */
  stale?: string[]
}

interface Walk {
  listing: Listing
  spelling: Spelling
  seen: Set<string>
  items: Item[]
  /** Something is there that we would not have written, or missing that we would have. */
  odd: boolean
}

export function* adoptList(name: string, listing: Listing, spelling: Spelling): Steps<Adopted> {
  const mine = [...listing.chains.keys()].filter((chain) => chain.startsWith(`${name}_`))
  // Without its declaration there is nothing of the list yet.
  if (mine.length === 0 && !listing.chains.has(name)) return { list: emptyList(name) }
  const numbers = mine.map((chain) => Number(chain.slice(name.length + 1)))
  const next = numbers.filter(Number.isSafeInteger).reduce((most, number) => Math.max(most, number), 0) + 1
  const walk: Walk = { listing, spelling, seen: new Set(), items: [], odd: false }
  const root = yield* adoptNode(name, walk)
  if (!walk.odd && mine.every((chain) => walk.seen.has(chain)) && inOrder(walk.items)) {
    return { list: { name, root, next } }
  }
  return { list: { name, root: { chain: name, items: distinct(walk.items) }, next }, stale: mine }
}

function* adoptNode(chain: string, walk: Walk): Steps<Node> {
  const rules = walk.listing.chains.get(chain)
  if (rules === undefined || walk.seen.has(chain)) {
    walk.odd = true
    return { chain, items: [] }
  }
  walk.seen.add(chain)
  yield
  const targets = rules.map((rule) => /^jump (\S+)$/.exec(rule.text)?.[1])
  if (targets.every((target) => target === undefined)) {
    const items = rules.flatMap(({ text, comment }) => readItem(text, comment, walk))
    walk.items.push(...items)
    return { chain, items }
  }
  const children: Node[] = []
  for (const [at, target] of targets.entries()) {
    if (target !== undefined) children.push(yield* adoptNode(target, walk))
    else walk.items.push(...readItem(rules[at]?.text ?? '', rules[at]?.comment ?? '', walk))
    walk.odd ||= target === undefined
  }
  return { chain, children }
}

/** A rule of ours, its digest made useless when it is not what we wrote; nothing for somebody else's. */
function readItem(text: string, comment: string, walk: Walk): Item[] {
  const match = /^(\S+) (\d+(?:\.\d+)*) ([0-9a-f]{16})$/.exec(comment)
  walk.odd ||= match === null
  if (!match) return []
  const [, key = '', rank = '', mark = ''] = match
  const digest = walk.spelling.proven(key, mark, text) ? mark : DAMAGED
  return [{ key, rank: rank.split('.').map(Number), text, digest }]
}

function inOrder(all: readonly Item[]): boolean {
  return all.every((it, at) => at === 0 || compareRanks(all[at - 1]?.rank ?? [], it.rank) < 0)
}

/** In order, one for each rank and for each key. */
function distinct(all: readonly Item[]): Item[] {
  const [ranks, keys] = [new Set<string>(), new Set<string>()]
  const kept = all.filter(({ key, rank }) => {
    const [at, fresh] = [rank.join('.'), !keys.has(key)]
    if (!fresh || ranks.has(at)) return false
    ranks.add(at)
    keys.add(key)
    return true
  })
  return kept.sort((a, b) => compareRanks(a.rank, b.rank))
}
