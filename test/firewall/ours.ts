/** The classifier in a lane, which must be the namespace of this process. */
import { release } from 'node:os'
import type { Test } from 'tap'
import type { FilterRule } from '../../dataplane/bpf/firewall/entries.ts'
import type { Filter } from '../../dataplane/bpf/firewall/filter.ts'
import { openClassifier } from '../../dataplane/bpf/firewall/open.ts'
import type { Scope } from '../netns.ts'
import type { Lane } from './lane.ts'
import { judging } from './nft-text.ts'

/** One rule from what it was to what it shall be; at least one side is present. */
export interface RulePassage {
  before?: FilterRule
  after?: FilterRule
}

export interface Ours {
  /** All of it comes into force at one instant. */
  change(diff: readonly RulePassage[]): Promise<unknown>
  filter: Filter
  /** What went wrong outside any change. */
  problems: unknown[]
  /** Holds these rules and no others, all at once, and this for packets that none decides. */
  hold(rules: readonly FilterRule[], acceptRest: boolean): Promise<void>
}

/** The first kernel that has BPF programs at the hooks of netfilter. */
const NEEDED = [6, 4] as const

/** False, with the reason printed, on a kernel where the classifier cannot run. On the top-level `t` the process ends. */
export function requireClassifier(t: Pick<Test, 'plan' | 'name'>): boolean {
  const [major = 0, minor = 0] = release().split('.').map(Number)
  if (major > NEEDED[0] || (major === NEEDED[0] && minor >= NEEDED[1])) return true
  t.plan(0, `this kernel (${release()}) has no BPF programs at netfilter hooks: Linux ${NEEDED.join('.')}`)
  if (t.name === 'TAP') process.exit(0)
  return false
}

/** Starts it below `root`, a directory on a bpf filesystem; it ends with the scope. */
export async function openOurs(t: Scope, lane: Lane, root: string): Promise<Ours> {
  // What the area has in front of the classifier.
  lane.nft(judging([]))
  const problems: unknown[] = []
  const onProblem = (error: unknown) => void problems.push(error)
  const { rules, defaults, filter, close } = await openClassifier({ root, onProblem })
  t.teardown(close)
  let held: readonly FilterRule[] = []
  return {
    change: (diff) => rules.apply(diff),
    filter,
    problems,
    async hold(next, acceptRest) {
      const kept = new Set(next)
      const gone = held.filter((rule) => !kept.has(rule))
      const there = new Set(held)
      const replaced = new Map(gone.map((rule) => [rule.key, rule]))
      const added = next.filter((rule) => !there.has(rule))
      const passages = added.map((after) => {
        const before = replaced.get(after.key)
        replaced.delete(after.key)
        return { after, ...(before && { before }) }
      })
      const rest = { after: { kind: 'filter_default', key: 'firewall/default', accept: acceptRest } } as const
      // Refused: what was there is there still.
      await rules.apply([...[...replaced.values()].map((before) => ({ before })), ...passages, rest])
      held = next
      await defaults.apply([rest])
    },
  }
}
