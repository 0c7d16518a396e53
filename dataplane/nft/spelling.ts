/**
 * Whether a rule in the kernel is still what we wrote. Its comment carries the digest of our text, but whoever edits a rule
 * may keep its comment, and the kernel spells some rules its own way. So the listed text must have that digest itself, or
 * be the spelling that is known for it. Where none is known there is doubt, until the kernel has been asked how it spells
 * the text: equal text is always spelled equally.
 */
import { digest } from '../digest.ts'
import type { Entry } from '../entry.ts'
import { KernelRefusal } from '../plane.ts'
import { atOnce } from '../slices.ts'
import { parseListing } from './listing.ts'
import { TABLE } from './text.ts'

/** A rule, or all rules of a small chain, listed otherwise than written. */
export interface Doubt {
  key: string
  mark: string
  /** A line for each rule. */
  listed: string
}

/** What is known during one observation. */
export interface Spelling {
  /** False when `listed` cannot stand for the text of which `mark` is the digest. */
  proven(key: string, mark: string, listed: string): boolean
  readonly doubts: Doubt[]
  learn(mark: string, spelled: string): void
}

export interface SpellingBook {
  /** Begins an observation: what the one before did not meet is forgotten. */
  open(): Spelling
}

export function spellingBook(): SpellingBook {
  let met = new Map<string, string>()
  return {
    open() {
      const known = met
      const seen = new Map<string, string>()
      met = seen
      const doubts: Doubt[] = []
      return {
        doubts,
        learn: (mark, spelled) => void seen.set(mark, spelled),
        proven(key, mark, listed) {
          if (digest(listed) === mark) return true
          const spelling = seen.get(mark) ?? known.get(mark)
          if (spelling === undefined) doubts.push({ key, mark, listed })
          else seen.set(mark, spelling)
          return spelling === undefined || spelling === listed
        },
      }
    },
  }
}

/** A chain that no packet meets, in which the kernel is made to spell rules. It is there for that moment only. */
const CHAIN = 'spelling'
const remove = [`flush chain ${TABLE} ${CHAIN}`, `delete chain ${TABLE} ${CHAIN}`]

export interface Kernel {
  /** One transaction. */
  run(commands: readonly string[]): Promise<void>
  /** Text of `nft list`. */
  list(what: string): Promise<string>
}

/**
 * Resolves the doubts about what `desired` says shall be there, and returns the keys of what is something else in truth.
 * Doubts about other entries do not matter: those differ anyway. @throws UncertainOutcome
 */
export async function resolve(spelling: Spelling, desired: readonly Entry[], kernel: Kernel): Promise<Set<string>> {
  try {
    return await compared(spelling, desired, kernel)
  } catch (error) {
    // What the kernel refuses to spell it would refuse to hold as well: nothing is gained by doubting what is there.
    if (error instanceof KernelRefusal) return new Set()
    throw error
  }
}

async function compared(spelling: Spelling, desired: readonly Entry[], kernel: Kernel): Promise<Set<string>> {
  const texts = textsOf(spelling.doubts, desired)
  const open = spelling.doubts.flatMap((doubt) => {
    const rules = texts.get(doubt.key)
    return rules && digest(rules.join('\n')) === doubt.mark ? [{ doubt, rules }] : []
  })
  if (open.length === 0) return new Set()
  const rules = open.flatMap((it) => it.rules.map((text) => `add rule ${TABLE} ${CHAIN} ${text}`))
  await kernel.run([`add chain ${TABLE} ${CHAIN}`, `flush chain ${TABLE} ${CHAIN}`, ...rules])
  const listing = atOnce(parseListing(await kernel.list(`chain ${TABLE} ${CHAIN}`)))
  await kernel.run(remove)
  const lines = (listing.chains.get(CHAIN) ?? []).map(({ text }) => text)
  const others = new Set<string>()
  for (const { doubt, rules } of open) {
    const spelled = lines.splice(0, rules.length).join('\n')
    spelling.learn(doubt.mark, spelled)
    if (spelled !== doubt.listed) others.add(doubt.key)
  }
  return others
}

function textsOf(doubts: readonly Doubt[], desired: readonly Entry[]): Map<string, readonly string[]> {
  if (doubts.length === 0) return new Map()
  const doubtful = new Set(doubts.map(({ key }) => key))
  const texts = new Map<string, readonly string[]>()
  for (const entry of desired) {
    if (!doubtful.has(entry.key)) continue
    if (entry.kind === 'rule') texts.set(entry.key, [entry.text])
    else if (entry.kind === 'chain') texts.set(entry.key, entry.rules)
  }
  return texts
}
