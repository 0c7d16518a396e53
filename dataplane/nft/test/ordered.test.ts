/** The tree of chains against a sorted array: same items, same order, whatever the changes. */

import t from 'tap'
import { fc } from '../../../test/property.ts'
import { atOnce } from '../../slices.ts'
import { adoptList } from '../adopt.ts'
import { emptyListing, type Listing } from '../listing.ts'
import {
  compareRanks,
  type Edit,
  edit,
  emptyList,
  type Item,
  isLeaf,
  item,
  items,
  MAX_CHILDREN,
  MAX_RULES,
  type Node,
  rewriting,
} from '../ordered.ts'
import { spellingBook } from '../spelling.ts'

const make = (n: number) => item(`x/${n}`, [n % 7, n % 1000, n], `ip saddr 10.0.0.${n % 256} drop`)

/** What a kernel would hold after the commands: chains with their rules, or an error as nftables gives it. */
function execute(chains: Map<string, string[]>, commands: readonly string[]): void {
  for (const command of commands) {
    const [, verb, what, name = '', rest = ''] = /^(\w+) (\w+) inet stratum (\S+) ?(.*)$/.exec(command) ?? []
    const chain = chains.get(name)
    if (verb === 'add' && what === 'chain') chains.set(name, chain ?? [])
    else if (chain === undefined) throw new Error(`no chain ${name}`)
    else if (verb === 'add') chain.push(rest)
    else if (verb === 'flush') chain.length = 0
    else if (verb === 'delete') {
      const used = [...chains.values()].some((rules) => rules.includes(`jump ${name}`))
      if (used || chain.length > 0) throw new Error(`chain ${name} is in use`)
      chains.delete(name)
    }
  }
}

function walk(chains: Map<string, string[]>, name: string): string[] {
  return (chains.get(name) ?? []).flatMap((rule) => {
    const target = /^jump (\S+)$/.exec(rule)?.[1]
    return target ? walk(chains, target) : [/comment "(\S+)/.exec(rule)?.[1] ?? rule]
  })
}

function bounded(node: Node): boolean {
  if (isLeaf(node)) return node.items.length <= MAX_RULES
  return node.children.length <= MAX_CHILDREN && node.children.length > 0 && node.children.every(bounded)
}

function asListing(chains: Map<string, string[]>): Listing {
  const rules = (list: string[]) =>
    list.map((rule) => ({
      text: rule.replace(/ ?comment ".*"$/, ''),
      comment: /comment "([^"]*)"/.exec(rule)?.[1] ?? '',
    }))
  return { ...emptyListing(), chains: new Map([...chains].map(([name, list]) => [name, rules(list)])) }
}

const adopt = (name: string, chains: Map<string, string[]>) =>
  atOnce(adoptList(name, asListing(chains), spellingBook().open()))

t.test('any sequence of changes leaves the kernel with exactly the sorted items', async (t) => {
  const step = fc.array(fc.record({ n: fc.integer({ min: 0, max: 3000 }), add: fc.boolean() }), { maxLength: 200 })
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 12 }), (steps) => {
      const model = new Map<number, Item>()
      const chains = new Map<string, string[]>([['l', []]])
      let list = emptyList('l')
      for (const changes of steps) {
        const wanted = new Map(changes.map(({ n, add }) => [n, add]))
        const removed = [...wanted].filter(([n, add]) => !add && model.has(n)).map(([n]) => make(n))
        const added = [...wanted].filter(([n, add]) => add && !model.has(n)).map(([n]) => make(n))
        for (const it of removed) model.delete(it.rank[2] ?? 0)
        for (const it of added) model.set(it.rank[2] ?? 0, it)
        const done: Edit = edit(list, removed, added)
        execute(chains, done.commands)
        list = done.list
        const expected = [...model.values()].sort((a, b) => compareRanks(a.rank, b.rank)).map(({ key }) => key)
        const tree = [...items(list.root)].map(({ key }) => key)
        if (tree.join() !== expected.join() || walk(chains, 'l').join() !== expected.join()) return false
        if (!bounded(list.root)) return false
      }
      const adopted = adopt('l', chains)
      return adopted.stale === undefined && [...items(adopted.list.root)].length === model.size
    }),
    { numRuns: 150, seed: 42 },
  )
  t.pass()
})

t.test('a change of one rule names few chains, however many rules there are', async (t) => {
  let { list } = edit(
    emptyList('l'),
    [],
    Array.from({ length: 16_384 }, (_, n) => make(n)),
  )
  const sizes: number[] = []
  for (let n = 20_000; n < 20_400; n++) {
    const done = edit(list, [], [make(n)])
    list = done.list
    sizes.push(done.commands.length)
  }
  sizes.sort((a, b) => a - b)
  t.ok((sizes[200] ?? 0) <= MAX_RULES + 1, `half of the changes take at most ${MAX_RULES + 1} commands`)
  t.ok((sizes.at(-1) ?? 0) <= 3 * (MAX_RULES + MAX_CHILDREN), 'a split stays bounded')
})

t.test('deleting everything leaves one empty chain', async (t) => {
  const all = Array.from({ length: 5000 }, (_, n) => make(n))
  const chains = new Map<string, string[]>([['l', []]])
  const full = edit(emptyList('l'), [], all)
  execute(chains, full.commands)
  execute(chains, edit(full.list, all, []).commands)
  t.same([...chains], [['l', []]])
})

t.test('a kernel whose chains are no tree of ours is written anew, and its leftovers go', async (t) => {
  const all = Array.from({ length: 100 }, (_, n) => make(n))
  const chains = new Map<string, string[]>([['l', []]])
  execute(chains, edit(emptyList('l'), [], all).commands)
  for (const [what, damage] of [
    ['a foreign rule', (c: Map<string, string[]>) => c.get('l_1')?.push('accept')],
    ['an orphaned chain', (c: Map<string, string[]>) => c.set('l_77', [])],
    ['a wrong order', (c: Map<string, string[]>) => c.get('l_2')?.reverse()],
  ] as const) {
    const broken = new Map([...chains].map(([name, rules]) => [name, [...rules]]))
    damage(broken)
    const { list, stale } = adopt('l', broken)
    t.ok(stale, `${what} is noticed`)
    execute(broken, atOnce(rewriting('l', all, list.next, stale ?? [])).commands)
    t.equal(walk(broken, 'l').length, 100, `${what}: all rules are back`)
    t.equal(adopt('l', broken).stale, undefined, `${what}: nothing is left of it`)
  }
})
