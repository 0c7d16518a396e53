/**
 * Members of a model cluster in thousands of orders of things, deciding by the functions of the product: what `test/faults` tries with real ones,
 * a few of them. RUNS sets how many (few by default), SEED which; `npm run test:cluster-model` does many.
 */
import t from 'tap'
import { present } from '../../plugins/cluster/etcd/words.ts'
import { changeKey, keysAbout, parentKey } from '../../plugins/cluster/keys.ts'
import { chance } from '../chance.ts'
import { SEED } from '../seed.ts'
import { RULES, type Rules } from './member.ts'
import { run } from './world.ts'

const RUNS = Number(process.env.RUNS ?? 300)
/** A rule that is wrong is found much sooner. */
const MOST_RUNS = 3000

interface Found {
  runs: number
  bad: number
  /** Of the first that went wrong. */
  seed?: number
  what?: string[]
  counts: Map<string, number>
}

/** `once`: ends with the first that goes wrong. */
function check(rules: Rules, runs: number, once = false): Found {
  const found: Found = { runs: 0, bad: 0, counts: new Map() }
  for (let at = 0; at < runs && !(once && found.bad > 0); at++) {
    const seed = SEED * 1_000_003 + at
    const what = run(chance(seed), rules, found.counts)
    found.runs++
    if (what.length > 0 && found.bad++ === 0) Object.assign(found, { seed, what })
  }
  return found
}

t.test('every store is what etcd is once all has arrived', async (t) => {
  const { runs, bad, seed, what, counts } = check(RULES, RUNS)
  t.equal(bad, 0, `${bad} of ${runs}, the first by seed ${seed}: ${what?.join('; ')}`)
  t.comment(`SEED=${SEED}, ${runs} runs: ${JSON.stringify(Object.fromEntries(counts))}`)
  const all = ['made', 'outrun', 'unknown', 'shut out', 'doubts ended', 'taken over anew', 'killed', 'removed']
  all.push('killed before its commit', 'left', 'could not leave', 'went on alone')
  for (const each of all) t.ok(counts.get(each), `${each} has happened`)
})

/** What each part of the rules is there for: without it the model finds what goes wrong. */
const without: Record<string, Partial<Rules>> = {
  'the newest change of a key counts': { isOutdated: () => false },
  'a row rests on the parent that its node has': {
    *transactionOf(held, sent, rid) {
      const transaction = yield* RULES.transactionOf(held, sent, rid)
      const parents = new Map<string, number>()
      for (const { collection, after } of sent.changes) {
        for (const parent of collection.parents ?? []) {
          const key = after && parentKey(after, parent)
          if (key !== undefined) parents.set(key, held.revisionOf(key))
        }
      }
      const loose = transaction.compares.map((compare) => {
        const key = compare.key.toString()
        return 'mod_revision' in compare && parents.has(key) ? present(key) : compare
      })
      return { ...transaction, compares: loose }
    },
  },
  'a member that leaves keeps the key of its last change': { keysTakenAlong: keysAbout },
  'a transaction follows the one before': {
    *transactionOf(held, sent, rid) {
      const transaction = yield* RULES.transactionOf(held, sent, rid)
      const own = changeKey(held.node)
      return { ...transaction, compares: transaction.compares.filter(({ key }) => key.toString() !== own) }
    },
  },
}

for (const [rule, others] of Object.entries(without)) {
  t.test(`it matters that ${rule}`, async (t) => {
    const { runs, bad, seed, what } = check({ ...RULES, ...others }, MOST_RUNS, true)
    t.ok(bad > 0, 'the model finds what goes wrong')
    t.comment(`in run ${runs}, by seed ${seed}: ${what?.join('; ')}`)
  })
}
