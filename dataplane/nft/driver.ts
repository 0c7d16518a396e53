/**
 * The nftables driver: keeps ordered lists, small chains and set elements of table `inet stratum`.
 * One `apply` is one kernel transaction. `observe` adopts what stands in the kernel, and changes nothing of it.
 *
 * What is somebody else's in that table (a chain or set of a name that no area declares) is left alone.
 */
import { DAMAGED, type Entry, isFrame, type OrderedRule, type Passage } from '../entry.ts'
import { type Driver, KernelRefusal, UncertainOutcome } from '../plane.ts'
import { type Steps, stepwise } from '../slices.ts'
import { adoptList } from './adopt.ts'
import { chainCommands, elementAddition, elementDeletion, observedChain, observedElements } from './content.ts'
import { type Generation, nextGeneration } from './generation.ts'
import { emptyListing, type Listing, parseListing } from './listing.ts'
import { type Edit, editing, type Item, item, items, type List, rewriting } from './ordered.ts'
import type { NftSession } from './session.ts'
import { frameOf, type Skeleton } from './skeleton.ts'
import { type Kernel, resolve, type Spelling, spellingBook } from './spelling.ts'
import { TABLE } from './text.ts'

export interface NftDriver extends Driver {
  /** See Plane. In portions, so that one transaction stays short. */
  addExpiring(set: string, elements: readonly string[]): Promise<void>
  /** See Plane. */
  holds(set: string, element: string): Promise<boolean>
  /** For a table beside ours that another driver keeps: its transactions are known as ours. */
  readonly beside: Kernel
}

/** The ground that changes build on: what the last observation found, and our own transactions since. */
interface Ground {
  lists: Map<string, List>
  /** Chains of a list whose order or content could not be understood: it is written anew by the next change to it. */
  stale: Map<string, string[]>
  /** Restores the declarations of an area that are not as we left them. */
  raise: Map<string, string[]>
  /** Generation of the ruleset up to which all is known; undefined when it is not. */
  generation: number | undefined
}

/** Both `session` and `generation` are closed with the driver. */
export function nftDriver(session: NftSession, skeletons: readonly Skeleton[], generation?: Generation): NftDriver {
  const frame = frameOf(skeletons)
  const book = spellingBook()
  let ground: Ground = { lists: new Map(), stale: new Map(), raise: new Map(), generation: undefined }
  let tail: Promise<unknown> = Promise.resolve()

  /** One at a time, so that a generation is never read between a transaction of ours and our counting it. */
  function inLane<T>(work: () => Promise<T>): Promise<T> {
    const run = tail.then(work)
    tail = run.catch(() => {})
    return run
  }

  async function list(): Promise<Listing> {
    try {
      return await stepwise(parseListing(await session.run(`list table ${TABLE}\n`)))
    } catch (error) {
      if (!(error instanceof KernelRefusal)) throw error
      const tables = await session.run('list tables inet\n')
      if (tables.split('\n').includes(`table ${TABLE}`)) throw error
      return emptyListing()
    }
  }

  async function run(commands: readonly string[]): Promise<void> {
    // A transaction that turns out to change nothing does not raise the generation. These always change something.
    const counts = commands.some((line) => /^(add (rule|chain)|delete) /.test(line))
    const sure = counts || !generation ? commands : [...commands, `add chain ${TABLE} ${frame.marker}`]
    try {
      await session.run(`${sure.join('\n')}\n`)
    } catch (error) {
      if (!(error instanceof KernelRefusal)) ground.generation = undefined
      throw error
    }
    if (ground.generation !== undefined) ground.generation = nextGeneration(ground.generation)
  }

  const kernel: Kernel = { run, list: (what) => session.run(`list ${what}\n`) }

  async function observe(desired: readonly Entry[]): Promise<Entry[]> {
    // Read before: what somebody commits while we list makes a later reading differ.
    const at = generation?.read()
    const listing = await list()
    const broken = frame.broken(listing)
    const raise = new Map(broken.map((skeleton) => [skeleton.area, frame.raise(listing, skeleton)]))
    const anew = broken.flatMap((skeleton) => frame.misplaced(listing, skeleton))
    for (const name of anew) listing.chains.set(name, [])
    const spelling = book.open()
    const { entries, lists, stale } = await stepwise(adopt(skeletons, listing, spelling))
    ground = { lists, stale, raise, generation: at }
    // Without its declarations a rule could not be spelled.
    const others = broken.length > 0 ? new Set() : await resolve(spelling, desired, kernel)
    for (const entry of entries) {
      if (others.has(entry.key) && (entry.kind === 'rule' || entry.kind === 'chain')) entry.digest = DAMAGED
    }
    return [...entries, ...broken.map(({ area }) => brokenFrame(area))]
  }

  async function apply(diff: readonly Passage[]): Promise<void> {
    const { edits, commands } = await stepwise(rendered(diff, ground))
    const raised = diff.flatMap(({ before }) => (before?.kind === 'chain' && isFrame(before) ? [areaOf(before)] : []))
    const all = [...raised.flatMap((area) => ground.raise.get(area) ?? []), ...commands]
    if (all.length > 0) await run(all)
    for (const [name, value] of edits) {
      ground.lists.set(name, value)
      ground.stale.delete(name)
    }
    for (const area of raised) ground.raise.delete(area)
    if (raised.length > 0 && ground.raise.size === 0) await record()
  }

  async function record(): Promise<void> {
    const at = generation?.read()
    try {
      const listing = await list()
      // With somebody else's commit in between it is not known what was restored: the next pass looks again.
      if (at === ground.generation) await run(frame.record(listing))
    } catch (cause) {
      throw new UncertainOutcome('the change was made, but the restored declarations could not be recorded', { cause })
    }
  }

  async function addExpiring(set: string, elements: readonly string[]): Promise<void> {
    for (let at = 0; at < elements.length; at += 500) {
      const portion = elements.slice(at, at + 500).join(', ')
      await inLane(() => run([`add element ${TABLE} ${set} { ${portion} }`]))
    }
  }

  async function holds(set: string, element: string): Promise<boolean> {
    try {
      await session.run(`get element ${TABLE} ${set} { ${element} }\n`)
      return true
    } catch (error) {
      if (error instanceof KernelRefusal) return false
      throw error
    }
  }

  return {
    name: 'nft',
    kinds: ['rule', 'chain', 'element'],
    observe: (desired = []) => inLane(() => observe(desired)),
    apply: (diff) => inLane(() => apply(diff)),
    addExpiring,
    holds,
    beside: { run: (commands) => inLane(() => run(commands)), list: kernel.list },
    ...(generation && {
      changedByOthers: () => inLane(async () => generation.read() !== ground.generation),
    }),
    async close() {
      await session.close()
      generation?.close()
    },
  }
}

type Adoption = Pick<Ground, 'lists' | 'stale'> & { entries: Entry[] }

function* adopt(skeletons: readonly Skeleton[], listing: Listing, spelling: Spelling): Steps<Adoption> {
  const adoption: Adoption = { lists: new Map(), stale: new Map(), entries: [] }
  const { lists, stale, entries } = adoption
  for (const skeleton of skeletons) {
    for (const name of skeleton.lists) {
      const found = yield* adoptList(name, listing, spelling)
      lists.set(name, found.list)
      if (found.stale) {
        stale.set(name, found.stale)
        entries.push(brokenList(skeleton.area, name))
      }
      for (const { key, rank, text, digest } of items(found.list.root)) {
        entries.push({ kind: 'rule', key, list: name, rank, text, digest })
        yield
      }
    }
    for (const chain of skeleton.chains) entries.push(...observedChain(skeleton.area, chain, listing, spelling))
    for (const set of skeleton.sets) {
      for (const element of observedElements(skeleton.area, set, listing)) {
        entries.push(element)
        yield
      }
    }
  }
  return adoption
}

/** Stands for a list whose chains are not as we left them. */
const brokenList = (area: string, list: string): OrderedRule => ({
  kind: 'rule',
  key: `${area}/${list}`,
  list,
  rank: [],
  text: '',
  digest: DAMAGED,
})

/** Stands for declarations that are not as we left them. */
const brokenFrame = (area: string): Entry => ({
  kind: 'chain',
  key: `${area}/skeleton`,
  chain: '',
  rules: [],
  digest: DAMAGED,
})
const areaOf = ({ key }: Entry): string => key.slice(0, key.indexOf('/'))

interface Rendered {
  edits: Map<string, List>
  commands: string[]
}

function* rendered(diff: readonly Passage[], { lists, stale }: Ground): Steps<Rendered> {
  const edits = new Map<string, List>()
  const commands: string[] = []
  for (const [name, { removed, added }] of yield* rulesByList(diff)) {
    const current = lists.get(name)
    if (current === undefined) throw new TypeError(`list ${name} is not declared in any skeleton`)
    const leftovers = stale.get(name)
    const done: Edit = leftovers
      ? yield* rewriting(name, merged(current, removed, added), current.next, leftovers)
      : yield* editing(current, removed, added)
    edits.set(name, done.list)
    for (const command of done.commands) commands.push(command)
  }
  for (const passage of diff) {
    const frame = passage.before ?? passage.after
    if (frame && isFrame(frame)) continue
    commands.push(...chainCommands(passage), ...elementDeletion(passage))
    yield
  }
  // Last: in an interval set an element may take the place of others that lie inside it.
  for (const passage of diff) {
    commands.push(...elementAddition(passage))
    yield
  }
  return { edits, commands }
}

function merged({ root }: List, removed: readonly Item[], added: readonly Item[]): Item[] {
  const all = new Map(Array.from(items(root), (it) => [it.rank.join('.'), it]))
  for (const { rank } of removed) all.delete(rank.join('.'))
  for (const it of added) all.set(it.rank.join('.'), it)
  return [...all.values()]
}

type RuleChanges = Map<string, { removed: Item[]; added: Item[] }>

function* rulesByList(diff: readonly Passage[]): Steps<RuleChanges> {
  const byList: RuleChanges = new Map()
  const of = (rule: OrderedRule) => {
    const found = byList.get(rule.list) ?? { removed: [], added: [] }
    byList.set(rule.list, found)
    return found
  }
  for (const { before, after } of diff) {
    // What stands for a whole list has no rank, and no rule.
    if (before?.kind === 'rule') {
      const { removed } = of(before)
      if (!isFrame(before)) removed.push({ ...before, digest: '' })
    }
    if (after?.kind === 'rule' && !isFrame(after)) of(after).added.push(asItem(after))
    yield
  }
  return byList
}

function asItem(rule: OrderedRule): Item {
  const made = item(rule.key, rule.rank, rule.text)
  return rule.digest === undefined ? made : { ...made, digest: rule.digest }
}
