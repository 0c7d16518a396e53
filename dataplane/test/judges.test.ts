/** The order of the steps in which the classifier and nft relieve each other, over drivers that write down what they are told. */
import t from 'tap'
import type { FilterDefault, FilterRule } from '../bpf/firewall/entries.ts'
import type { VipEntry } from '../bpf/lb/entries.ts'
import { fallbackChains, fallbackRules } from '../bpf/lb/fallback.ts'
import { type Chain, DAMAGED, type Entry, fingerprint, type OrderedRule, type Passage } from '../entry.ts'
import { inTurn, leftClassifier, steps } from '../judges.ts'
import { type Driver, joinDrivers, KernelRefusal, UncertainOutcome } from '../plane.ts'

const admits: FilterDefault = { kind: 'filter_default', key: 'firewall/filter_default', accept: true }
const denies: FilterDefault = { ...admits, accept: false }
const filter: FilterRule = {
  kind: 'filter',
  key: 'firewall/filter/1',
  id: 1,
  rank: [0, 0, 1],
  accept: true,
  match: {},
}
const rule: OrderedRule = { kind: 'rule', key: 'firewall/1', list: 'firewall_rules', rank: [0, 0, 1], text: 'accept' }
const chain = (chain: string, ...rules: string[]): Chain => ({ kind: 'chain', key: `firewall/${chain}`, chain, rules })
const [LINEAR, MARKED, PLAIN] = [chain('base', 'linear'), chain('base', 'marked'), chain('base')]
const [MARKS, DROP] = [chain('spared', 'marks'), chain('default', 'drop')]

/** Drivers as the kernel's plane has them, and what they were told, one line each. */
function planeOf(options: { refuses?: (name: string, told: string) => boolean; left?: boolean } = {}) {
  const log: string[] = []
  const word = ({ before, after }: Passage) =>
    `${before && after ? '~' : after ? '+' : '-'}${(after ?? before)?.key.slice('firewall/'.length)}`
  const driver = (name: string, kinds: Entry['kind'][]): Driver => ({
    name,
    kinds,
    observe: async () => [],
    async apply(diff) {
      const told = `${name} ${diff.map(word).join(' ')}`
      if (options.refuses?.(name, told)) throw new KernelRefusal('made up')
      log.push(told)
    },
    close: async () => {},
  })
  /** As the classifier's drivers do: each carries out one of the two defaults. */
  const action = (driver: Driver, accept: boolean): Driver => ({
    ...driver,
    async apply(diff) {
      const own = diff.filter(({ before, after }) => {
        const entry = after ?? before
        return entry?.kind !== 'filter_default' || (after?.kind === 'filter_default' ? after.accept : true) === accept
      })
      if (own.length > 0) await driver.apply(own)
    },
  })
  const nft = driver('nft', ['rule', 'chain', 'element'])
  const attached = { now: true }
  const left = leftClassifier(
    () => attached.now,
    async () => {
      log.push('taken off')
      attached.now = false
    },
  )
  const drivers = options.left
    ? [nft, left]
    : [
        action(driver('rules', ['filter', 'filter_default']), true),
        nft,
        action(driver('defaults', ['filter_default']), false),
      ]
  const plane = joinDrivers(drivers, () => [])
  return { ...plane, apply: inTurn(plane.apply), log }
}

t.test(
  'a default that denies is in force once nft marks what is spared, one that admits before it ceases to',
  async (t) => {
    const { apply, log } = planeOf()
    const toDeny: Passage[] = [{ before: PLAIN, after: MARKED }, { before: admits, after: denies }, { after: MARKS }]
    const undo = await apply(toDeny)
    t.same(log.splice(0), ['nft ~base +spared', 'defaults ~filter_default'])
    await undo()
    t.same(log.splice(0), ['nft ~base -spared', 'rules ~filter_default'], 'taken back')
    await apply([{ before: MARKED, after: PLAIN }, { before: denies, after: admits }, { before: MARKS }])
    t.same(log, ['rules ~filter_default', 'nft ~base -spared'])
  },
)

t.test(
  'when the classifier begins nft ceases to judge last, when it ends it is taken off once nft judges',
  async (t) => {
    const begins: Passage[] = [
      { before: LINEAR, after: MARKED },
      { before: rule },
      { before: DROP },
      { after: MARKS },
      { after: filter },
      { after: denies },
    ]
    const first = planeOf()
    const undo = await first.apply(begins, 'restore')
    const forward = ['rules +filter/1', 'nft +spared', 'defaults +filter_default', 'nft ~base -1 -default']
    t.same(first.log.splice(0), forward)
    await undo()
    t.same(first.log, ['nft ~base +1 +default', 'nft -spared', 'rules -filter/1 -filter_default'])

    const second = planeOf({ left: true })
    const left = await second.observe()
    t.same(
      left.map(({ key }) => key),
      ['firewall/filter_default'],
    )
    const ends: Passage[] = [
      { before: MARKED, after: LINEAR },
      { before: MARKS },
      { after: rule },
      { after: DROP },
      ...left.map((before) => ({ before })),
    ]
    await second.apply(ends, 'restore')
    t.same(second.log, ['nft ~base +1 +default', 'taken off', 'nft -spared'])
    t.same(await second.observe(), [], 'and nothing is left')
  },
)

t.test('a refusal half way leaves the former judge in its place', async (t) => {
  const begins: Passage[] = [{ before: LINEAR, after: MARKED }, { before: rule }, { after: filter }, { after: denies }]
  const refused = planeOf({ refuses: (_name, told) => told.includes('~base') })
  await t.rejects(refused.apply(begins), KernelRefusal)
  t.same(refused.log, ['rules +filter/1', 'defaults +filter_default', 'rules -filter/1 -filter_default'])

  const stuck = planeOf({ left: true, refuses: (_name, told) => told.includes('-spared') })
  const ends: Passage[] = [{ before: MARKED, after: LINEAR }, { before: MARKS }, { before: denies }]
  await t.rejects(stuck.apply(ends), UncertainOutcome)
  t.same(stuck.log, ['nft ~base', 'taken off'], 'nft is not taken back when the classifier is off')
})

t.test('any other change is one step, and what stands for a damaged frame is in the first', async (t) => {
  const others: Passage[][] = [
    [{ before: rule }, { after: filter }, { before: denies, after: admits }],
    [{ before: PLAIN, after: MARKED }, { after: MARKS }, { before: admits, after: denies }],
    [{ before: rule }, { after: filter }],
  ]
  for (const change of others) t.same(steps(change), [change, []])
  const frame: Passage = { before: { ...chain(''), key: 'firewall/skeleton', digest: DAMAGED } }
  t.same(steps([{ after: denies }, frame]), [[{ after: denies }, frame], []])
  t.same(steps([{ after: denies }, frame, { before: rule }]), [[{ after: denies }, frame], [{ before: rule }]])
})

t.test('entries of the classifier are the same when all is the same that the kernel must hold', async (t) => {
  const others: FilterRule[] = [
    { ...filter, id: 2 },
    { ...filter, rank: [0, 1, 1] },
    { ...filter, accept: false },
    { ...filter, fresh: true },
    { ...filter, match: { interface: 'eth0' } },
    { ...filter, window: { from: 0, to: 60, daily: true } },
    { ...filter, damaged: true },
  ]
  const prints = [filter, admits, denies, ...others].map(fingerprint)
  t.equal(new Set(prints).size, prints.length)
  t.equal(fingerprint({ ...filter, key: 'another' }), fingerprint(filter))
})

t.test('the programs balance before nft does so no longer', (t) => {
  const entry: VipEntry = {
    kind: 'vip',
    key: 'lb/vip/web',
    id: 'web',
    address: '192.0.2.10',
    port: 80,
    protocol: 'tcp',
    algorithm: 'maglev',
    dsr: false,
    backends: [{ id: 'b1', address: '10.0.0.1', port: 80, weight: 1, state: 'up' }],
  }
  const leaves = [...fallbackRules(entry, 1), ...fallbackChains].map((before) => ({ before }))
  const comes = { after: entry }
  t.same(steps([...leaves, comes]), [[comes], leaves])
  t.same(steps([{ before: rule }, ...leaves, comes]), [[{ before: rule }, comes], leaves], 'nothing else waits')
  const change = [...leaves, { before: entry, after: { ...entry, backends: [] } }]
  t.same(steps(change), [change, []], 'a change of nft alone is one step')
  t.end()
})
