/** Small chains and set elements: what the kernel holds of them as entries, and entries as commands. */
import { digest } from '../digest.ts'
import { type Chain, DAMAGED, type Passage, type SetElement } from '../entry.ts'
import { elementsOf, type Listing } from './listing.ts'
import type { Spelling } from './spelling.ts'
import { comment, TABLE } from './text.ts'

export function chainCommands({ before, after }: Passage): string[] {
  const chain = after?.kind === 'chain' ? after : before?.kind === 'chain' ? { ...before, rules: [] } : undefined
  if (chain === undefined) return []
  // Every rule carries the digest of the whole chain, so that a missing one shows.
  const mark = digest(chain.rules.join('\n'))
  const rules = chain.rules.map(
    (text, at) =>
      `add rule ${TABLE} ${chain.chain} ${text} ${comment(`${chain.key} ${at + 1}/${chain.rules.length} ${mark}`)}`,
  )
  return [`flush chain ${TABLE} ${chain.chain}`, ...rules]
}

export const elementDeletion = ({ before }: Passage): string[] =>
  before?.kind === 'element' ? [`delete element ${TABLE} ${before.set} { ${before.element} }`] : []

export function elementAddition({ after }: Passage): string[] {
  if (after?.kind !== 'element') return []
  const { set, element, value } = after
  return [`add element ${TABLE} ${set} { ${element}${value === undefined ? '' : ` : ${value}`} }`]
}

/** A chain as it stands, nothing when it is empty. Without a full set of matching marks and our text it counts as damaged. */
export function observedChain(area: string, chain: string, listing: Listing, spelling: Spelling): Chain[] {
  const rules = listing.chains.get(chain) ?? []
  if (rules.length === 0) return []
  const marks = rules.map((rule) => /^\S+ (\d+)\/(\d+) ([0-9a-f]{16})$/.exec(rule.comment))
  const mark = marks[0]?.[3]
  const whole = marks.every(
    (it, at) => it?.[3] === mark && Number(it?.[1]) === at + 1 && Number(it?.[2]) === rules.length,
  )
  const texts = rules.map(({ text }) => text)
  const key = `${area}/${chain}`
  const held = mark !== undefined && whole && spelling.proven(key, mark, texts.join('\n'))
  return [{ kind: 'chain', key, chain, rules: texts, digest: held ? mark : DAMAGED }]
}

export function* observedElements(area: string, set: string, listing: Listing): Generator<SetElement> {
  for (const text of elementsOf(listing, set)) {
    const [element = '', value] = text.split(' : ')
    const key = `${area}/${set}/${element}`
    yield { kind: 'element', key, set, element, ...(value === undefined ? {} : { value }) }
  }
}
