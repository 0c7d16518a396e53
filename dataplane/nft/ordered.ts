/**
 * An ordered list of any number of nft rules whose change costs the same however many there are.
 *
 * nft can only append to a chain cheaply: an insertion needs rule handles, and to learn those costs a dump of the
 * ruleset. So the list is a B+tree of chains: leaves hold at most MAX_RULES rules, branches jump to their children in
 * order, and a change re-renders only the chains it touches. nftables switches all chains of a transaction at one
 * generation, so no packet ever sees half of a change.
 *
 * The tree is persistent: `edit` returns a new tree and leaves the old one alone, so a refused transaction needs no undo.
 */
import { digest } from '../digest.ts'
import { atOnce, type Steps } from '../slices.ts'
import { comment, TABLE } from './text.ts'

/** Measured: a rule costs 22 us to re-render, a chain 1.2 us for every command that names one of the table's chains. */
export const MAX_RULES = 32
export const MAX_CHILDREN = 128

export interface Item {
  key: string
  rank: readonly number[]
  text: string
  /** Digest of the text as first rendered; the kernel lists rules in its own spelling. */
  digest: string
}
interface Leaf {
  chain: string
  items: readonly Item[]
}
interface Branch {
  chain: string
  children: readonly Node[]
}
export type Node = Leaf | Branch
export interface List {
  name: string
  root: Node
  /** Number of the next chain to be made: names are never reused within the life of a table. */
  next: number
}

export interface Edit {
  list: List
  /** nft commands in the order in which one transaction must hold them. */
  commands: string[]
}

/** What happens at one rank. */
interface Step {
  rank: readonly number[]
  item?: Item
}

interface Work {
  list: string
  next: number
  made: Set<Node>
  replaced: Map<string, Node>
}

export const isLeaf = (node: Node): node is Leaf => 'items' in node

export function emptyList(name: string): List {
  return { name, root: { chain: name, items: [] }, next: 1 }
}

export function item(key: string, rank: readonly number[], text: string): Item {
  return { key, rank, text, digest: digest(text) }
}

export function compareRanks(a: readonly number[], b: readonly number[]): number {
  for (let i = 0; i < a.length; i++) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}

/** All items in order. */
export function* items(node: Node): Generator<Item> {
  if (isLeaf(node)) yield* node.items
  else for (const child of node.children) yield* items(child)
}

/** Removes what stands at the ranks of `removed`, then puts in `added`. Ranks are unique; one rank may be in both. */
export const edit = (list: List, removed: readonly Item[], added: readonly Item[]): Edit =>
  atOnce(editing(list, removed, added))

/** The same for changes of any size, to be carried out in slices. */
export function* editing(list: List, removed: readonly Item[], added: readonly Item[]): Steps<Edit> {
  const steps = new Map<string, Step>()
  for (const { rank } of removed) {
    steps.set(rank.join('.'), { rank })
    yield
  }
  for (const it of added) {
    steps.set(it.rank.join('.'), { rank: it.rank, item: it })
    yield
  }
  const ordered = [...steps.values()].sort((a, b) => compareRanks(a.rank, b.rank))
  yield
  const work: Work = { list: list.name, next: list.next, made: new Set(), replaced: new Map() }
  const root = grow(work, update(work, list.root, ordered))
  yield
  return { list: { name: list.name, root, next: work.next }, commands: yield* render(work) }
}

/** The commands that write the whole list anew, dropping the chains named in `stale`. */
export function* rewriting(name: string, all: readonly Item[], next: number, stale: readonly string[]): Steps<Edit> {
  const start = { ...emptyList(name), next }
  const { list, commands } = yield* editing(start, [], all)
  const root = commands.length === 0 ? [`flush chain ${TABLE} ${name}`] : []
  return { list, commands: [...root, ...commands, ...dropChains(stale)] }
}

function make<T extends Node>(work: Work, node: T): T {
  work.made.add(node)
  return node
}

function replace(work: Work, node: Node): void {
  if (!work.made.delete(node)) work.replaced.set(node.chain, node)
}

const freshName = (work: Work) => `${work.list}_${work.next++}`

/** A root of exactly one node that carries the list's name. */
function grow(work: Work, nodes: Node[]): Node {
  const [first, ...rest] = nodes
  if (first === undefined) return make(work, { chain: work.list, items: [] })
  if (rest.length > 0) {
    replace(work, first)
    const renamed = make(work, { ...first, chain: freshName(work) })
    let level: readonly Node[] = [renamed, ...rest]
    while (level.length > MAX_CHILDREN) {
      level = split(level, MAX_CHILDREN).map((children) => make(work, { chain: freshName(work), children }))
    }
    return make(work, { chain: work.list, children: level })
  }
  const only = isLeaf(first) ? undefined : first.children[0]
  if (isLeaf(first) || only === undefined || first.children.length > 1) return first
  replace(work, first)
  replace(work, only)
  return grow(work, [make(work, { ...only, chain: work.list })])
}

/** The nodes that take the place of `node`: none when nothing is left, several when it had to be split. */
function update(work: Work, node: Node, steps: readonly Step[]): Node[] {
  if (steps.length === 0) return [node]
  return isLeaf(node) ? updateLeaf(work, node, steps) : updateBranch(work, node, steps)
}

function updateLeaf(work: Work, leaf: Leaf, steps: readonly Step[]): Node[] {
  const merged: Item[] = []
  let at = 0
  for (const step of steps) {
    for (let it = leaf.items[at]; it && compareRanks(it.rank, step.rank) < 0; it = leaf.items[++at]) merged.push(it)
    const here = leaf.items[at]
    if (here && compareRanks(here.rank, step.rank) === 0) at++
    if (step.item) merged.push(step.item)
  }
  replace(work, leaf)
  const all = merged.concat(leaf.items.slice(at))
  return split(all, MAX_RULES).map((part, index) =>
    make(work, { chain: index === 0 ? leaf.chain : freshName(work), items: part }),
  )
}

function updateBranch(work: Work, branch: Branch, steps: readonly Step[]): Node[] {
  const children: Node[] = []
  let at = 0
  branch.children.forEach((child, index) => {
    const following = branch.children[index + 1]
    const bound = following && firstRank(following)
    let end = bound ? at : steps.length
    while (bound && end < steps.length && compareRanks(steps[end]?.rank ?? [], bound) < 0) end++
    children.push(...update(work, child, steps.slice(at, end)))
    at = end
  })
  replace(work, branch)
  return split(joinSmall(work, children), MAX_CHILDREN).map((part, index) =>
    make(work, { chain: index === 0 ? branch.chain : freshName(work), children: part }),
  )
}

/** Joins neighbouring leaves of which one has just shrunk, so that deletions do not leave a trail of tiny chains. */
function joinSmall(work: Work, children: Node[]): Node[] {
  const out: Node[] = []
  for (const node of children) {
    const last = out.at(-1)
    const touched = work.made.has(node) || (last !== undefined && work.made.has(last))
    if (last && touched && isLeaf(last) && isLeaf(node) && last.items.length + node.items.length <= MAX_RULES / 2) {
      replace(work, last)
      replace(work, node)
      out[out.length - 1] = make(work, { chain: last.chain, items: [...last.items, ...node.items] })
    } else out.push(node)
  }
  return out
}

function firstRank(node: Node): readonly number[] {
  let at = node
  while (!isLeaf(at)) {
    const child: Node | undefined = at.children[0]
    if (child === undefined) return []
    at = child
  }
  return at.items[0]?.rank ?? []
}

/** Even parts of at most `max`; one list that fits stays whole, and nothing gives no part at all. */
function split<T>(all: readonly T[], max: number): (readonly T[])[] {
  if (all.length <= max) return all.length === 0 ? [] : [all]
  const count = Math.ceil(all.length / (max * 0.75))
  const size = Math.ceil(all.length / count)
  return Array.from({ length: count }, (_, i) => all.slice(i * size, (i + 1) * size)).filter((part) => part.length > 0)
}

function* render(work: Work): Steps<string[]> {
  const add: string[] = []
  const fill: string[] = []
  const jump: string[] = []
  const live = new Set<string>()
  for (const node of work.made) {
    live.add(node.chain)
    const old = work.replaced.get(node.chain)
    const created = old === undefined && node.chain !== work.list
    if (created) add.push(`add chain ${TABLE} ${node.chain}`)
    const emptied = created ? [] : [`flush chain ${TABLE} ${node.chain}`]
    if (isLeaf(node)) fill.push(...emptied, ...node.items.map((it) => rule(node.chain, it)))
    else if (!sameChildren(old, node)) jump.push(...emptied, ...jumps(node))
    yield
  }
  const gone = [...work.replaced.keys()].filter((chain) => !live.has(chain))
  return [...add, ...fill, ...jump, ...dropChains(gone)]
}

/** All are emptied before the first is deleted: a chain that another one jumps to is in use. */
const dropChains = (chains: readonly string[]) => [
  ...chains.map((chain) => `flush chain ${TABLE} ${chain}`),
  ...chains.map((chain) => `delete chain ${TABLE} ${chain}`),
]

const jumps = (branch: Branch) =>
  branch.children.map((child) => `add rule ${TABLE} ${branch.chain} jump ${child.chain}`)

function rule(chain: string, it: Item): string {
  return `add rule ${TABLE} ${chain} ${it.text} ${comment(`${it.key} ${it.rank.join('.')} ${it.digest}`)}`
}

function sameChildren(old: Node | undefined, branch: Branch): boolean {
  if (old === undefined || isLeaf(old) || old.children.length !== branch.children.length) return false
  return old.children.every((child, index) => child.chain === branch.children[index]?.chain)
}
