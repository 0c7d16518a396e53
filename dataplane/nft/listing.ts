/** Reads `nft list table` text: chains with their rules, sets with their elements. Never throws on odd input. */

export interface ListedRule {
  text: string
  comment: string
}
export interface Listing {
  chains: Map<string, ListedRule[]>
  /** Elements as nft writes them, value (of a map) after ` : `. */
  sets: Map<string, string[]>
}

export function parseListing(text: string): Listing {
  const chains = new Map<string, ListedRule[]>()
  const sets = new Map<string, string[]>()
  const lines = text.split('\n')
  for (let at = 0; at < lines.length; at++) {
    const head = /^\t(chain|set|map) ([A-Za-z0-9_./-]+) \{$/.exec(lines[at] ?? '')
    if (!head) continue
    const [, kind, name = ''] = head
    const body: string[] = []
    for (at++; at < lines.length && lines[at] !== '\t}'; at++) body.push(lines[at] ?? '')
    if (kind === 'chain') chains.set(name, body.flatMap(parseRule))
    else sets.set(name, parseElements(body.join(' ')))
  }
  return { chains, sets }
}

/** Rules stand at two tabs; a base chain's `type … hook …` line is not a rule. */
function parseRule(line: string): ListedRule[] {
  if (!line.startsWith('\t\t') || /^\t\t(type \w+ hook |comment ")/.test(line)) return []
  const found = /^(.*?) ?comment "([^"]*)"$/.exec(line.slice(2))
  return [{ text: found?.[1] ?? line.slice(2), comment: found?.[2] ?? '' }]
}

function parseElements(body: string): string[] {
  const start = body.indexOf('elements = {')
  if (start < 0) return []
  const inner = body.slice(start + 'elements = {'.length, body.lastIndexOf('}'))
  return inner
    .split(',')
    .map((element) => element.trim().replace(/\s+/g, ' '))
    .filter((element) => element !== '')
}
