/**
 * Who judges the packets of the firewall: the classifier, or nft rule by rule. When one takes over from the other, every
 * packet is judged meanwhile, and what a default deny spares is spared. So it is with virtual addresses, when the programs
 * take over from nft: they are before it, so both may be there.
 */
import type { FilterDefault } from './bpf/firewall/entries.ts'
import { isFallback } from './bpf/lb/fallback.ts'
import { type Chain, type Entry, isFrame, type OrderedRule, type Passage, type SetElement } from './entry.ts'
import { type Driver, type Plane, UncertainOutcome } from './plane.ts'

/** An object in nft that is taken away. What stands for a damaged frame is none: its passage repairs the frame. */
const leavesNft = ({ before, after }: Passage): boolean => after === undefined && isNft(before) && !isFrame(before)

const isNft = (entry: Entry | undefined): entry is OrderedRule | Chain | SetElement =>
  entry?.kind === 'rule' || entry?.kind === 'chain' || entry?.kind === 'element'

/**
 * `begins`: the classifier takes over a default of deny, and chains by which nft denied so far go. `ends`: a classifier
 * is taken off.
 */
function turnOf(diff: readonly Passage[]): 'begins' | 'ends' | undefined {
  const action = diff.find(({ before, after }) => (after ?? before)?.kind === 'filter_default')
  if (action === undefined) return undefined
  const { after } = action
  if (after === undefined) return 'ends'
  return after.kind === 'filter_default' && !after.accept && diff.some(leavesNft) ? 'begins' : undefined
}

/**
 * A change by which one judge takes over from the other, as two: until the second the former one judges beside the new
 * one. What nft holds is changed last when the classifier begins, and only taken away last when it ends: the base chain
 * is what makes nft judge.
 */
export function steps(diff: readonly Passage[]): [readonly Passage[], readonly Passage[]] {
  const turn = turnOf(diff)
  const balances = diff.some(({ before, after }) => before === undefined && after?.kind === 'vip')
  if (turn === undefined && !balances) return [diff, []]
  const last = (passage: Passage) => {
    if (isFallback(passage.before)) return balances && leavesNft(passage)
    if (turn === undefined) return false
    return leavesNft(passage) || (turn === 'begins' && isNft(passage.before) && isNft(passage.after))
  }
  return [diff.filter((passage) => !last(passage)), diff.filter(last)]
}

/** `apply` in those steps, all or nothing. */
export function inTurn(apply: Plane['apply']): Plane['apply'] {
  return async (diff, mode) => {
    const [first, second] = steps(diff)
    const undo = await apply(first, mode)
    if (second.length === 0) return undo
    try {
      const undoSecond = await apply(second, mode)
      return async () => {
        await undoSecond()
        await undo()
      }
    } catch (error) {
      await undo().catch((cause: unknown) => {
        throw new UncertainOutcome('a change was refused half way and could not be undone', { cause })
      })
      throw error
    }
  }
}

/** Stands for what an earlier agent attached; the firewall is the area whose rules it judges by. */
const LEFT: FilterDefault = { kind: 'filter_default', key: 'firewall/filter_default', accept: true }

/**
 * Where nft judges: what an earlier agent attached is there and undesired, so the comparison of a start takes it off. It
 * comes last of all drivers, because it cannot be put back: by then nothing of the change can be refused any more.
 */
export function leftClassifier(attached: () => boolean, remove: () => Promise<unknown>): Driver {
  return {
    name: 'classifier',
    kinds: ['filter_default'],
    observe: async () => (attached() ? [LEFT] : []),
    async apply() {
      await remove()
      return async () => {
        throw new Error('a classifier that was taken off cannot be put back')
      }
    },
    close: async () => {},
  }
}
