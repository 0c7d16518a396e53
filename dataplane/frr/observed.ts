/** The running configuration of bgpd as entries. */
import type { ReadNeighbor } from './answers.ts'
import { type BgpEntry, bfdLine, entryOf } from './entries.ts'
import { readStatements, type Statement } from './statements.ts'

/** In steps. `neighbors`: how BFD is set for each, of which the configuration says only that it is. */
export function* observed(config: string, neighbors: readonly ReadNeighbor[]): Generator<void, BgpEntry[]> {
  const bfd = new Map(neighbors.map((it) => [it.address, it.bfd]))
  const entries = new Map<string, BgpEntry & { statements: Statement[] }>()
  for (const statement of readStatements(config)) {
    const owner = entryOf(statement)
    if (owner === undefined) continue
    const entry = entries.get(owner.key) ?? { ...owner, statements: [] }
    entries.set(owner.key, entry)
    entry.statements.push(withTimes(statement, bfd))
    yield
  }
  return [...entries.values()]
}

function withTimes(statement: Statement, bfd: ReadonlyMap<string, ReadNeighbor['bfd']>): Statement {
  const [, address = ''] = /^neighbor (\S+) bfd$/.exec(statement.line) ?? []
  const times = bfd.get(address)
  if (times === undefined) return statement
  return { ...statement, line: `neighbor ${address} ${bfdLine(times.multiplier, times.rx, times.tx)}` }
}
