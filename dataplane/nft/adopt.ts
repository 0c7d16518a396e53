/** Rebuilds the tree of an ordered list from what stands in the kernel. */
import type { Listing } from './listing.ts'
import { compareRanks, emptyList, type Item, items, type List, type Node } from './ordered.ts'

export interface Adopted {
  list: List
  /** Present when the kernel's chains are not a tree of ours: the chains to drop once the list is written anew. */
  stale?: string[]
}

export function adoptList(name: string, listing: Listing): Adopted {
  const mine = [...listing.chains.keys()].filter((chain) => chain.startsWith(`${name}_`))
  const numbers = mine.map((chain) => Number(chain.slice(name.length + 1)))
  const next = Math.max(0, ...numbers.filter(Number.isSafeInteger)) + 1
  const seen = new Set<string>()
  const root = adoptNode(name, listing, seen)
  const known = root !== undefined && mine.every((chain) => seen.has(chain))
  if (known && inOrder(root)) return { list: { name, root, next } }
  return { list: { ...emptyList(name), next }, stale: mine }
}

function adoptNode(chain: string, listing: Listing, seen: Set<string>): Node | undefined {
  const rules = listing.chains.get(chain)
  if (rules === undefined || seen.has(chain)) return undefined
  seen.add(chain)
  const targets = rules.map((rule) => /^jump (\S+)$/.exec(rule.text)?.[1])
  if (rules.length > 0 && targets.every((target) => target !== undefined)) {
    const children = targets.map((target) => adoptNode(target ?? '', listing, seen))
    return children.every((child) => child !== undefined) ? { chain, children } : undefined
  }
  const found = rules.map(({ text, comment }) => parseItem(text, comment))
  return found.every((it) => it !== undefined) ? { chain, items: found } : undefined
}

function parseItem(text: string, comment: string): Item | undefined {
  const match = /^(\S+) (\d+(?:\.\d+)*) ([0-9a-f]{16})$/.exec(comment)
  if (!match) return undefined
  const [, key = '', rank = '', digest = ''] = match
  return { key, rank: rank.split('.').map(Number), text, digest }
}

function inOrder(root: Node): boolean {
  let last: Item | undefined
  for (const it of items(root)) {
    if (last && compareRanks(last.rank, it.rank) >= 0) return false
    last = it
  }
  return true
}
