/** Reads table `inet stratum` back from the kernel, by nft's own words and with nothing of the agent's code. */
import type { Netns } from '../../../test/netns.ts'

export interface KernelRule {
  text: string
  comment: string
}

/** The whole table as nft prints it; times in UTC. */
export const table = (ns: Netns): string => ns.run('env', 'TZ=UTC', 'nft', 'list', 'table', 'inet', 'stratum')

/** Rules of each chain in order; where a rule names a set with fixed elements, those stand in its place. */
export function chains(listing: string): Map<string, KernelRule[]> {
  const sets = new Map(
    Array.from(
      listing.matchAll(/^\tset (\S+) \{\n(?:\t\t.*\n)*?\t\telements = (\{.*\})\n\t\}/gm),
      ([, name = '', elements]) => [name, elements],
    ),
  )
  const spelt = (line: string) => line.replace(/@(\w+)/g, (whole, name: string) => sets.get(name) ?? whole)
  const found = new Map<string, KernelRule[]>()
  let rules: KernelRule[] = []
  for (const line of listing.split('\n')) {
    const name = /^\tchain (\S+) \{$/.exec(line)?.[1]
    if (name !== undefined || line === '\t}') rules = []
    if (name !== undefined) found.set(name, rules)
    else if (line.startsWith('\t\t') && !/^\t\ttype \S+ hook /.test(line)) rules.push(split(spelt(line.trim())))
  }
  return found
}

function split(line: string): KernelRule {
  const at = line.lastIndexOf(' comment "')
  return at < 0 ? { text: line, comment: '' } : { text: line.slice(0, at), comment: line.slice(at + 10, -1) }
}

/** The rules that a packet meets in `chain` if none of them decides: jumps are followed where they stand. */
export function* walk(all: ReadonlyMap<string, KernelRule[]>, chain: string): Generator<KernelRule> {
  for (const rule of all.get(chain) ?? []) {
    const target = /^jump (\S+)$/.exec(rule.text)?.[1]
    if (target === undefined) yield rule
    else yield* walk(all, target)
  }
}
