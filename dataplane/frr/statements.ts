/**
 * FRR's configuration as a set of statements: each a line, and the lines of the nodes that it stands in. What bgpd prints as its
 * running configuration and what is desired are the same kind of thing, so they can be compared.
 */
import { communitySet } from './communities.ts'

export interface Statement {
  /** From the outside in: `router bgp 65001`, `address-family ipv4 unicast`. Empty at the top. */
  in: readonly string[]
  line: string
}

/** Lines of which the indentation opens a node. */
const OPENS = /^(router bgp|route-map|address-family) /

/** Reads `show running-config` of bgpd. What it does not know is a statement all the same; nothing makes it throw. */
export function* readStatements(config: string): Generator<Statement> {
  const path: { indent: number; line: string }[] = []
  for (const raw of config.split('\n')) {
    const line = raw.trim()
    if (line === '' || line.startsWith('!') || line === 'exit' || line.startsWith('exit-')) continue
    const indent = raw.length - raw.trimStart().length
    while ((path.at(-1)?.indent ?? -1) >= indent) path.pop()
    const within = path.map((node) => node.line)
    yield { in: within, line: line.startsWith('set community ') ? inNumbers(line) : line }
    if (OPENS.test(line)) path.push({ indent, line })
  }
}

/** Words stand for some communities: there is one way to write a statement here. */
function inNumbers(line: string): string {
  const [, , ...words] = line.split(' ')
  return words[0] === 'none' ? line : `set community ${communitySet(words).join(' ')}`
}

/** Of a statement, as one comparable string. */
export const statementText = (statement: Statement): string => [...statement.in, statement.line].join('\n')
