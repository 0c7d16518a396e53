/** Reads `nft list table` text: chains with their rules, sets with their elements. Never throws on odd input. */
import type { Steps } from '../slices.ts'

export interface ListedRule {
  text: string
  comment: string
}
export interface Listing {
  chains: Map<string, ListedRule[]>
  /** Elements as nft writes them, not yet taken apart: see {@link elementsOf}. */
  sets: Map<string, string>
  /** What an object is, apart from its content, by `chain <name>`, `set <name>` and so on; `table` has the table's flags. */
  heads: Map<string, string>
}

export const emptyListing = (): Listing => ({ chains: new Map(), sets: new Map(), heads: new Map() })

export function* parseListing(text: string): Steps<Listing> {
  const listing = emptyListing()
  let block: { kind: string; name: string; body: string[] } | undefined
  let flags = ''
  for (const line of lines(text)) {
    if (block === undefined) {
      const [, kind, name = ''] = /^\t([a-z][a-z ]*) ([A-Za-z0-9_./-]+) \{$/.exec(line) ?? []
      if (kind !== undefined) block = { kind, name, body: [] }
      else if (line.startsWith('\tflags ')) flags = line.trim()
    } else if (line === '\t}') {
      take(listing, block)
      block = undefined
      yield
    } else block.body.push(line)
  }
  if (text !== '') listing.heads.set('table', flags)
  return listing
}

function* lines(text: string): Generator<string> {
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf('\n', at)
    const next = end < 0 ? text.length : end
    yield text.slice(at, next)
    at = next + 1
  }
}

function take({ chains, sets, heads }: Listing, { kind, name, body }: { kind: string; name: string; body: string[] }) {
  if (kind === 'chain') {
    const hook = body.find(isHook)
    heads.set(`chain ${name}`, hook?.trim() ?? '')
    chains.set(name, body.flatMap(readRule))
  } else if (kind === 'set' || kind === 'map') {
    const start = body.findIndex((line) => line.startsWith('\t\telements = {'))
    const own = start < 0 ? body : body.slice(0, start)
    heads.set(`${kind} ${name}`, own.map((line) => line.trim()).join('; '))
    sets.set(name, start < 0 ? '' : body.slice(start).join(' '))
  } else heads.set(`${kind} ${name}`, '')
}

const isHook = (line: string): boolean => /^\t\ttype \w+ hook /.test(line)

/** Rules stand at two tabs; neither a base chain's `type … hook …` line nor the comment of a chain is a rule. */
function readRule(line: string): ListedRule[] {
  if (!line.startsWith('\t\t') || line.startsWith('\t\tcomment "') || isHook(line)) return []
  const found = /^(.*?) ?comment "([^"]*)"$/.exec(line.slice(2))
  return [{ text: found?.[1] ?? line.slice(2), comment: found?.[2] ?? '' }]
}

/** The elements of a set, value (of a map) after ` : `. */
export function* elementsOf({ sets }: Listing, set: string): Generator<string> {
  const body = sets.get(set) ?? ''
  for (let at = body.indexOf('{') + 1; at > 0 && at < body.length; ) {
    const end = body.indexOf(',', at)
    const next = end < 0 ? body.lastIndexOf('}') : end
    const element = body.slice(at, next).trim().replace(/\s+/g, ' ')
    if (element !== '') yield element
    at = end < 0 ? 0 : end + 1
  }
}
